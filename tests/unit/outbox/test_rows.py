"""A message becomes a row and the same message again; one that no broker would take becomes none."""

from __future__ import annotations

import uuid

import pytest

from orbitmq import IllegalMessage, Message, MessageTooLarge
from orbitmq.outbox.rows import ROW_ID, checked_id, message_of, new_id, row_of
from orbitmq.outbox.tables import LOCKS, lock_of

NOW = 1_795_000_000_000
ID = "0198a5a0-0000-7000-8000-000000000001"


def as_row(message: Message, **given: object) -> dict[str, object]:
    return row_of(message, ID, NOW, **{"max_size_bytes": 1 << 20, **given})  # type: ignore[arg-type]


FULL = Message(
    "orders",
    b"\x00\xff body",
    tags="created",
    keys=("a", "b"),
    properties={"city": "Zürich", "emoji": "🚀"},
    deliver_at_ms=NOW + 5000,
    sharding_key="customer 17",
    flag=-3,
    wait_store_ok=False,
)


def test_everything_that_travels_comes_back() -> None:
    message = message_of(as_row(FULL, carried={"traceparent": "00-1-2-01"}))
    assert (message.topic, message.body, message.tags) == ("orders", b"\x00\xff body", "created")
    assert message.keys == ("a", "b", ID)
    assert message.properties == {"city": "Zürich", "emoji": "🚀", "traceparent": "00-1-2-01", ROW_ID: ID}
    assert (message.deliver_at_ms, message.sharding_key) == (NOW + 5000, "customer 17")
    assert (message.flag, message.wait_store_ok) == (-3, False)


def test_debezium_finds_its_columns() -> None:
    row = as_row(FULL)
    assert [row[name] for name in ("id", "aggregatetype", "aggregateid", "type", "payload")] == [
        ID,
        "orders",
        "customer 17",
        "created",
        b"\x00\xff body",
    ]


def test_a_plain_message_has_no_rare_columns() -> None:
    row = as_row(Message("orders", b"x"))
    assert [row[name] for name in ("aggregateid", "type", "message_keys", "properties", "deliver_at_ms")] == [
        None
    ] * 5
    assert message_of(row).keys == (ID,)


def test_a_delay_counts_from_the_transaction_and_not_from_the_send() -> None:
    row = as_row(Message("orders", b"x", delay_ms=60_000))
    assert row["deliver_at_ms"] == NOW + 60_000
    assert message_of(row).delay_ms is None
    assert message_of(as_row(Message("orders", b"x", delay_level=3))).delay_level == 3


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message("orders", b"x", sharding_key=""), "sharding_key is empty"),
        (Message("orders", b"x", sharding_key="k" * 10_000), "sharding_key has 10000 characters"),
        (Message("orders", b"x", lite_topic="l"), "no column for a lite_topic"),
        (Message("orders", b"x", tags="t" * 256), "tags has 256 characters"),
        (Message("orders", b"x", properties={ROW_ID: "1"}), "the outbox's own"),
        (Message("orders", b"x", properties={"a": "b" * 40_000}), "can be stored"),
    ],
)
def test_what_no_broker_or_column_takes_is_refused(message: Message, told: str) -> None:
    with pytest.raises(IllegalMessage, match=told):
        as_row(message)


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        as_row(Message("orders", b"x" * 11), max_size_bytes=10)


def test_a_message_that_was_made_illegal_later_is_refused() -> None:
    message = Message("orders", b"x")
    message.body = b""
    with pytest.raises(IllegalMessage, match="body"):
        as_row(message)
    with pytest.raises(IllegalMessage, match="Message"):
        as_row("text")  # type: ignore[arg-type]


@pytest.mark.parametrize("properties", ["[1]", "{", '{"a": 1}', '"text"'])
def test_a_row_that_others_wrote_wrongly_is_no_message(properties: str) -> None:
    row = {**as_row(Message("orders", b"x")), "properties": properties}
    with pytest.raises(IllegalMessage):
        message_of(row)


def test_ids_are_uuids_in_the_order_of_time() -> None:
    ids = [new_id(NOW + step, (1 << 80) - 1 - step) for step in range(5)]
    assert ids == sorted(ids)
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert {uuid.UUID(one).variant for one in ids} == {uuid.RFC_4122}


def test_an_id_has_one_form() -> None:
    assert checked_id(uuid.UUID(ID)) == checked_id(ID.upper().replace("-", "")) == ID
    with pytest.raises(IllegalMessage, match="UUID"):
        checked_id("order 17")


def test_a_key_has_one_lock_and_messages_without_a_key_have_many() -> None:
    assert lock_of("t", "k", "1") == lock_of("t", "k", "2")
    assert len({lock_of("t", None, str(number)) for number in range(1000)}) == LOCKS
    assert all(0 <= lock_of("t", str(number), "") < LOCKS for number in range(1000))
