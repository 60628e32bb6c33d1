from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.message import COMPRESSED, COMPRESSION_ZSTD, StoredMessage
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.messages import (
    check_type,
    needs_inflating,
    received_message,
    sent_properties,
    sent_sys_flag,
    topic_type,
    type_of,
)
from orbitmq.proxy.wire import messaging_pb2 as pb

HANDLE = PopHandle(7, 1000, 60_000, 3, 0, "broker-a", 2, 7, 4096)
WORDS = st.text("abcdefghijklmnop-_.", min_size=1, max_size=20)


def record(properties: dict[str, str], *, body: bytes = b"body", sys_flag: int = 0) -> StoredMessage:
    host = pack_host("127.0.0.1", 1234)
    return StoredMessage(
        "orders", body, encode_properties(properties), 2, 7, 4096, 0, sys_flag, 1000, host, 2000, host,
        1, 0, 0, 100,
    )  # fmt: skip


@given(
    properties=st.dictionaries(WORDS, WORDS, max_size=6),
    tag=WORDS,
    keys=st.lists(WORDS, max_size=3),
    group=st.none() | WORDS,
)
def test_a_message_comes_back_as_it_was_sent(
    properties: dict[str, str], tag: str, keys: list[str], group: str | None
) -> None:
    sent = pb.Message(topic=pb.Resource(name="orders"), body=b"body", user_properties=properties)
    sent.system_properties.message_id = "01ABC"
    sent.system_properties.tag = tag
    sent.system_properties.keys.extend(keys)
    sent.system_properties.born_host = "client"
    sent.system_properties.born_timestamp.FromMilliseconds(1234)
    if group is not None:
        sent.system_properties.message_group = group
    stored = decode_properties(sent_properties(sent, "orders", "10.0.0.1:5", 0))
    got = received_message(record(stored), "orders", HANDLE, 2, 60_000)
    assert dict(got.user_properties) == properties
    assert (got.body, got.topic.name) == (b"body", "orders")
    system = got.system_properties
    assert (system.message_id, system.tag, list(system.keys)) == ("01ABC", tag, keys)
    assert (system.born_host, system.born_timestamp.ToMilliseconds()) == ("client", 1234)
    assert system.message_group == (group or "")
    assert system.message_type == (pb.NORMAL if group is None else pb.FIFO)
    assert system.receipt_handle == HANDLE.to_text()
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (2, 7, 2)
    assert system.body_digest.checksum == hashlib.md5(b"body").hexdigest().upper()


def test_the_host_of_a_client_that_does_not_name_its_own_is_that_of_its_connection() -> None:
    sent = pb.Message(topic=pb.Resource(name="orders"), body=b"x")
    stored = decode_properties(sent_properties(sent, "orders", "10.0.0.1:5", 77))
    assert (stored["__BORNHOST"], stored["BORN_TIMESTAMP"], stored["PGROUP"]) == ("10.0.0.1", "77", "orders")


def test_half_messages_carry_the_time_until_their_producer_is_asked() -> None:
    sent = pb.Message(topic=pb.Resource(name="orders"), body=b"x")
    sent.system_properties.message_type = pb.TRANSACTION
    sent.system_properties.orphaned_transaction_recovery_duration.seconds = 9
    stored = decode_properties(sent_properties(sent, "orders", "h:1", 0))
    assert (stored["TRAN_MSG"], stored["CHECK_IMMUNITY_TIME_IN_SECONDS"]) == ("true", "9")
    assert sent_sys_flag(sent) == 4


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DELAY", pb.DELAY),
        ("TIMER_DELIVER_MS", pb.DELAY),
        ("TIMER_DELAY_SEC", pb.DELAY),
        ("TIMER_DELAY_MS", pb.DELAY),
        ("__SHARDINGKEY", pb.FIFO),
        ("_SYS_MSG_PRIORITY_", pb.PRIORITY),
        ("__LITE_TOPIC", pb.LITE),
        ("own", pb.NORMAL),
    ],
)
def test_a_received_message_has_the_type_that_its_properties_say(
    name: str, kind: pb.MessageType.ValueType
) -> None:
    got = received_message(record({name: "1"}), "orders", HANDLE, 1, 1)
    assert got.system_properties.message_type == kind


def test_a_dead_letter_names_the_message_that_it_was() -> None:
    stored = record({"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "01"})
    dead = received_message(stored, "%DLQ%g", HANDLE, 1, 1).system_properties.dead_letter_queue
    assert (dead.topic, dead.message_id) == ("orders", "01")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("NORMAL", "FIFO"), ("FIFO", "NORMAL"), ("DELAY", "NORMAL"), ("TRANSACTION", "DELAY")],
)
def test_a_message_of_another_type_than_its_topics_is_refused(wanted: str, found: str) -> None:
    one = pb.Message()
    if found == "FIFO":
        one.system_properties.message_group = "g"
    elif found == "DELAY":
        one.system_properties.delivery_timestamp.seconds = 1
    assert type_of(one) == found
    with pytest.raises(ProxyRefused) as refused:
        check_type("orders", wanted, one)
    assert refused.value.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    check_type("orders", "MIXED", one)
    check_type("%DLQ%g", wanted, one)


def test_a_topic_without_the_attribute_is_normal() -> None:
    assert topic_type({}) == "NORMAL"
    assert topic_type({"message.type": "FIFO"}) == "FIFO"


def test_bodies_that_only_clients_of_the_remoting_protocol_can_inflate() -> None:
    assert needs_inflating(record({}, sys_flag=COMPRESSED | COMPRESSION_ZSTD))
    assert not needs_inflating(record({}, sys_flag=COMPRESSED))
    zipped = received_message(record({}, sys_flag=COMPRESSED), "orders", HANDLE, 1, 1)
    assert zipped.system_properties.body_encoding == pb.GZIP


def test_a_message_of_a_transaction_that_is_delayed_is_refused() -> None:
    """apache/rocketmq#10260"""
    half = pb.Message()
    half.system_properties.message_type = pb.TRANSACTION
    half.system_properties.delivery_timestamp.FromMilliseconds(5)
    with pytest.raises(ProxyRefused, match="cannot be delayed") as refused:
        sent_properties(half, "orders", "h:1", 0)
    assert refused.value.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
