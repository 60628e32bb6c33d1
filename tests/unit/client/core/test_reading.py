from __future__ import annotations

import zlib

from orbitmq.client.core.reading import read_messages
from orbitmq.client.core.subscription import subscription
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.properties import encode_properties
from tests.kit.client_messages import QUEUE, record, stored


def test_nothing() -> None:
    assert read_messages(None, QUEUE) == ([], [])
    assert read_messages(b"", QUEUE) == ([], [])


def test_messages_come_in_the_order_of_the_queue() -> None:
    body = b"".join(record(stored(n, b"m%d" % n)) for n in range(3))
    messages, problems = read_messages(memoryview(body), QUEUE)
    assert [(m.queue_offset, m.body, m.topic, m.queue) for m in messages] == [
        (n, b"m%d" % n, "T", QUEUE) for n in range(3)
    ]
    assert problems == []


def test_fields_that_are_read_on_demand_are_those_of_the_record() -> None:
    sent = stored(
        7, b"body", reconsume_times=1, TAGS="t", KEYS="a b", UNIQ_KEY="U", __SHARDINGKEY="s", own="1"
    )
    message = read_messages(record(sent), QUEUE)[0][0]
    assert (message.tags, message.keys, message.message_id, message.sharding_key) == (
        "t",
        ["a", "b"],
        "U",
        "s",
    )
    assert message.properties["own"] == "1"
    assert (message.physical_offset, message.born_timestamp_ms) == (sent.physical_offset, sent.born_timestamp)
    assert (message.record.body, message.record.properties) == (b"body", sent.properties)
    assert message.record.size == len(record(sent))
    assert message.record is message.record


def test_a_record_keeps_its_body_if_a_handler_changes_that_of_the_message() -> None:
    message = read_messages(record(stored(0, b"as sent")), QUEUE)[0][0]
    message.body = b"changed"
    assert message.record.body == b"as sent"
    assert message.message_id == message.offset_message_id


def test_tags_are_compared_as_texts_because_hashes_may_collide() -> None:
    # "Aa" and "BB" have one hash code.
    body = record(stored(0, TAGS="Aa")) + record(stored(1, TAGS="BB")) + record(stored(2))
    messages, _ = read_messages(body, QUEUE, subscription("T", "Aa", 0))
    assert [message.queue_offset for message in messages] == [0]
    assert len(read_messages(body, QUEUE, subscription("T", "*", 0))[0]) == 3


def test_compressed_and_retried_messages_are_filtered_by_tag_too() -> None:
    wanted = subscription("T", "a", 0)
    packed = [record(stored(n, zlib.compress(b"x"), sys_flag=1, TAGS=tag)) for n, tag in enumerate("ab")]
    plain = [record(stored(n + 2, b"x", TAGS=tag, RETRY_TOPIC="T")) for n, tag in enumerate("ba")]
    body = b"".join([*packed, *plain])
    for queue in (QUEUE, MessageQueue("%RETRY%g", "b", 0)):
        messages, problems = read_messages(body, queue, wanted, "g")
        assert [(one.queue_offset, one.body) for one in messages] == [(0, b"x"), (3, b"x")]
        assert not problems


def test_bodies_are_inflated() -> None:
    for bits in (0x1, 0x301):
        packed = stored(0, zlib.compress(b"text" * 100), sys_flag=bits)
        messages, problems = read_messages(record(packed), QUEUE)
        assert messages[0].body == b"text" * 100
        assert problems == []


def test_what_cannot_be_inflated_is_told_and_the_rest_is_read() -> None:
    body = record(stored(0, b"no zlib", sys_flag=0x301)) + record(stored(1, b"fine"))
    messages, problems = read_messages(body, QUEUE)
    assert [message.body for message in messages] == [b"fine"]
    assert len(problems) == 1


def test_a_damaged_record_is_told_and_the_rest_is_read() -> None:
    damaged = bytearray(record(stored(0, b"damaged")))
    damaged[damaged.find(b"damaged")] ^= 1
    messages, problems = read_messages(bytes(damaged) + record(stored(1, b"fine")), QUEUE)
    assert [message.body for message in messages] == [b"fine"]
    assert "checksum" in str(problems[0])


def test_a_retried_message_has_the_topic_it_was_sent_to() -> None:
    queue = MessageQueue("%RETRY%g", "broker-a", 0)
    body = record(stored(0, topic="%RETRY%g", reconsume_times=2, RETRY_TOPIC="orders"))
    message = read_messages(body, queue, None, "g")[0][0]
    assert (message.topic, message.queue.topic, message.reconsume_times) == ("orders", "%RETRY%g", 2)
    assert read_messages(body, queue, None, "other")[0][0].topic == "%RETRY%g"


def test_an_inner_batch_is_taken_apart() -> None:
    inner = encode_batch((n, b"m%d" % n, encode_properties({"TAGS": f"t{n}"})) for n in range(3))
    body = record(stored(10, inner, sys_flag=0xC0, INNER_NUM="3", INNER_BASE="10"))
    messages, problems = read_messages(body, QUEUE)
    assert problems == []
    assert [(m.queue_offset, m.body, m.tags, m.flag) for m in messages] == [
        (10, b"m0", "t0", 0),
        (11, b"m1", "t1", 1),
        (12, b"m2", "t2", 2),
    ]
