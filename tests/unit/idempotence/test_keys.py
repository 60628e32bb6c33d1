"""Keys: a property, a function, or the message's own id; their limits; their scope."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from orbitmq.admin.dead_letters.dead_letter import dead_letter_of
from orbitmq.admin.dead_letters.outgoing import Edit, outgoing
from orbitmq.client import PermanentFailure
from orbitmq.idempotence.errors import InvalidKey
from orbitmq.idempotence.keys import OUTBOX_ID, Entry, Scope, checked_key, entry_of, message_key, whole_body
from orbitmq.outbox import ROW_ID
from orbitmq.protocol.records.properties import decode_properties
from tests.kit.client_messages import received, stored

SCOPE = Scope("billing", "orders", "charge")


def entry(key: object = None, body: bytes = b"{}", **properties: str) -> Entry:
    return entry_of(received(0, body, **properties), SCOPE, key, whole_body)  # type: ignore[arg-type]


def test_without_a_key_the_id_of_the_message_counts_and_never_its_keys() -> None:
    # One order id stands in created, paid and shipped.
    created, paid = entry(UNIQ_KEY="A", KEYS="order-17"), entry(UNIQ_KEY="B", KEYS="order-17")
    assert (created.key, paid.key) == ("A", "B")
    with pytest.raises(InvalidKey, match="no property UNIQ_KEY: pass key="):
        entry(KEYS="order-17")


def test_a_delayed_message_counts_once_for_each_occurrence() -> None:
    first = entry(UNIQ_KEY="A", **{"delay.id": "D", "delay.occurrence": "1"})
    second = entry(UNIQ_KEY="A", **{"delay.id": "D", "delay.occurrence": "2"})
    assert (first.key, second.key) == ("D#1", "D#2")


def test_a_row_of_an_outbox_is_one_message_however_often_it_was_sent() -> None:
    assert OUTBOX_ID == ROW_ID
    assert entry(UNIQ_KEY="A", outboxId="17").id == entry(UNIQ_KEY="B", outboxId="17").id


def test_a_redriven_dead_letter_has_the_key_of_the_message_it_was() -> None:
    letter = dead_letter_of("broker-a", stored(UNIQ_KEY="A"))
    redriven = decode_properties(outgoing(letter, "T", "B", Edit()).properties)
    assert (redriven["UNIQ_KEY"], message_key(redriven)) == ("B", "A")
    again = dead_letter_of("broker-a", stored(**redriven))
    assert message_key(decode_properties(outgoing(again, "T", "C", Edit()).properties)) == "A"


def test_a_business_key_catches_the_same_order_published_twice() -> None:
    first = entry("orderId", UNIQ_KEY="A", orderId="17")
    again = entry(lambda message: json.loads(message.body)["id"], b'{"id": 17}', UNIQ_KEY="B")
    assert first.key == again.key == "17"
    assert first.id == again.id
    assert first.fingerprint != again.fingerprint


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("orderId", "no property 'orderId', which key= names"),
        (lambda message: json.loads(message.body)["id"], "key= failed for message ID: UnicodeDecodeError"),
        (lambda message: None, "a text, a whole number or a UUID, not NoneType"),
        (lambda message: True, "not bool"),
        (lambda message: "", "the key is empty"),
        (lambda message: " \t", "the key is empty"),
        (lambda message: "x" * 10_000, "a key of 10000 characters is over the limit of 255: use a digest"),
        (lambda message: "a\0", "cannot store"),
        (lambda message: "\ud800", "cannot store"),
    ],
)
def test_a_key_that_is_none_is_a_permanent_failure_that_says_what_to_do(key: object, text: str) -> None:
    with pytest.raises(InvalidKey, match=text) as raised:
        entry(key, b"\xff no JSON", UNIQ_KEY="ID")
    assert isinstance(raised.value, PermanentFailure)


def test_numbers_and_uuids_are_keys() -> None:
    assert checked_key(17) == "17"
    assert checked_key(UUID(int=1)) == "00000000-0000-0000-0000-000000000001"


def test_ids_tell_scopes_and_keys_apart_whatever_they_hold() -> None:
    parts = ["a", "ab", "b", "A", "a ", ""]
    ids = {
        Entry(Scope(group, topic, handler), key, "", "").id
        for group in parts
        for topic in parts
        for handler in parts
        for key in parts
    }
    assert len(ids) == len(parts) ** 4


def test_a_fingerprint_that_fails_is_an_invalid_key() -> None:
    with pytest.raises(InvalidKey, match=r"fingerprint= failed for message ID: ZeroDivisionError"):
        entry_of(received(UNIQ_KEY="ID"), SCOPE, None, lambda message: bytes(1 // 0))
    assert entry_of(received(UNIQ_KEY="ID"), SCOPE, None, None).fingerprint == ""


def test_a_long_message_id_of_a_foreign_producer_is_cut() -> None:
    assert len(entry("k", UNIQ_KEY="x" * 1000, k="1").message_id) == 255
