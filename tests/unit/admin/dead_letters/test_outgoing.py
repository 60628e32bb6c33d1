from __future__ import annotations

import pytest

from orbitmq.admin.dead_letters.dead_letter import DeadLetter, dead_letter_of
from orbitmq.admin.dead_letters.outgoing import Edit, SubscriptionFilter, outgoing
from orbitmq.client import IllegalMessage
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties, encode_properties

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def letter(**properties: str) -> DeadLetter:
    texts = {"RETRY_TOPIC": "orders", "TAGS": "red", "KEYS": "k1 k2", "colour": "blue", **properties}
    given = {name: text for name, text in texts.items() if text}
    stored = StoredMessage(
        *("%DLQ%billing", b"body", encode_properties(given), 0, 7, 1000, 5, 0, 1, HOST, 2, HOST, 3, 0, 0, 200)
    )
    return dead_letter_of("b", stored)


def test_a_message_keeps_what_its_sender_gave_it_and_names_its_letter() -> None:
    dead = letter(UNIQ_KEY="OLD")
    made = outgoing(dead, "orders", "NEW", Edit())
    properties = decode_properties(made.properties.decode())
    assert (made.topic, made.body, made.flag) == ("orders", b"body", 5)
    assert properties["colour"] == "blue"
    assert (properties["TAGS"], properties["KEYS"], properties["UNIQ_KEY"]) == ("red", "k1 k2", "NEW")
    assert properties["orbitmq.redriven"] == dead.message.offset_id
    assert properties["orbitmq.replays"] == "1"
    assert "RETRY_TOPIC" not in properties


def test_each_run_counts_one_more_against_loops() -> None:
    made = outgoing(letter(**{"orbitmq.replays": "2"}), "orders", "NEW", Edit())
    assert decode_properties(made.properties.decode())["orbitmq.replays"] == "3"


def test_a_retry_names_the_topic_and_the_message_that_it_is_a_copy_of() -> None:
    made = outgoing(letter(ORIGIN_MESSAGE_ID="FIRST"), "%RETRY%billing", "NEW", Edit())
    properties = decode_properties(made.properties.decode())
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", "FIRST")


def test_an_edit_replaces_parts_and_an_empty_text_removes_one() -> None:
    edit = Edit(body=b"mended", tags="", keys="k3", properties={"colour": "green"})
    made = outgoing(letter(), "orders", "NEW", edit)
    properties = decode_properties(made.properties.decode())
    assert made.body == b"mended"
    assert "TAGS" not in properties
    assert (properties["KEYS"], properties["colour"]) == ("k3", "green")


def test_an_edit_that_no_message_can_have_is_refused() -> None:
    with pytest.raises(IllegalMessage):
        outgoing(letter(), "orders", "NEW", Edit(properties={"colour": "a\x02b"}))


@pytest.mark.parametrize(
    ("expression", "tag", "passes"),
    [("*", None, True), ("", "x", True), ("a || b", "b", True), ("a||b", "c", False), ("a", None, False)],
)
def test_tags_filter_as_the_broker_does(expression: str, tag: str | None, passes: bool) -> None:
    assert SubscriptionFilter(SubscriptionData("orders", expression)).lets_pass(tag, b"") is passes


def test_sql_filters_as_the_broker_does_and_a_wrong_one_lets_nothing_pass() -> None:
    row = SubscriptionData("orders", "colour = 'blue'", expression_type="SQL92")
    assert SubscriptionFilter(row).lets_pass(None, encode_properties({"colour": "blue"}))
    assert not SubscriptionFilter(row).lets_pass(None, encode_properties({"colour": "red"}))
    wrong = SubscriptionFilter(SubscriptionData("orders", "colour = ", expression_type="SQL92"))
    assert wrong.error
    assert not wrong.lets_pass(None, encode_properties({"colour": "blue"}))
