from __future__ import annotations

import threading
import zlib
from typing import Any

import pytest

from orbitmq.client.core import reading as reading_module
from orbitmq.client.core.errors import BodyTooLarge, UnreadableBody
from orbitmq.client.core.message import ReceivedMessage, UnreadableMessage
from orbitmq.client.core.reading import ON_LOOP_BYTES, AnswerReading, BodyLimits, read_answer
from orbitmq.client.core.subscription import subscription
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import encode_properties
from tests.kit.client_messages import QUEUE, record, stored


def read_messages(*answer: Any) -> tuple[list[ReceivedMessage], list[Exception]]:
    """The messages of an answer, and the damaged records."""
    reading = AnswerReading(*answer)
    assert reading.read()
    return reading.messages, reading.problems


def packed(queue_offset: int, size_bytes: int, **properties: str) -> bytes:
    """A small record with a body of so many bytes once it is inflated."""
    return record(stored(queue_offset, zlib.compress(bytes(size_bytes)), sys_flag=1, **properties))


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
    squeezed = [record(stored(n, zlib.compress(b"x"), sys_flag=1, TAGS=tag)) for n, tag in enumerate("ab")]
    plain = [record(stored(n + 2, b"x", TAGS=tag, RETRY_TOPIC="T")) for n, tag in enumerate("ba")]
    body = b"".join([*squeezed, *plain])
    for queue in (QUEUE, MessageQueue("%RETRY%g", "b", 0)):
        messages, problems = read_messages(body, queue, wanted, "g")
        assert [(one.queue_offset, one.body) for one in messages] == [(0, b"x"), (3, b"x")]
        assert not problems


def test_bodies_are_inflated() -> None:
    for bits in (0x1, 0x301):
        squeezed = stored(0, zlib.compress(b"text" * 100), sys_flag=bits)
        messages, problems = read_messages(record(squeezed), QUEUE)
        assert messages[0].body == b"text" * 100
        assert problems == []


def test_a_body_that_cannot_be_inflated_is_a_message_of_its_own() -> None:
    body = record(stored(0, b"no zlib", sys_flag=0x301, UNIQ_KEY="ID")) + record(stored(1, b"fine"))
    (bad, fine), problems = read_messages(body, QUEUE)
    assert (fine.body, fine.body_error, problems) == (b"fine", None, [])
    assert isinstance(bad, UnreadableMessage)
    assert (bad.message_id, bad.size_bytes, bad.stored_body) == ("ID", 7, (b"no zlib", 0x301))
    with pytest.raises(UnreadableBody, match="ID: the body, stored in 7 bytes, cannot be read"):
        _ = bad.body
    assert "<7 bytes>" in repr(bad)


def test_a_body_above_the_limit_names_the_option_and_the_others_are_read() -> None:
    body = packed(0, 2000) + packed(1, 2001) + packed(2, 5)
    reading = AnswerReading(body, QUEUE, limits=BodyLimits(2000))
    assert reading.read()
    assert [message.queue_offset for message in reading.messages] == [0, 1, 2]
    error = reading.messages[1].body_error
    assert isinstance(error, BodyTooLarge)
    assert "raise max_inflated_body_bytes" in str(error)
    assert error.limit_bytes == 2000
    assert [len(reading.messages[at].body) for at in (0, 2)] == [2000, 5]


def test_an_answer_ends_where_its_inflated_bodies_reach_the_limit() -> None:
    body = b"".join(packed(n, 1000) for n in range(5, 10))
    reading = AnswerReading(body, QUEUE, limits=BodyLimits(answer_bytes=2000))
    assert reading.read()
    assert [message.queue_offset for message in reading.messages] == [5, 6]
    assert reading.stopped_at == 7
    one_at_least = AnswerReading(body, QUEUE, limits=BodyLimits(answer_bytes=0))
    assert one_at_least.read()
    assert (len(one_at_least.messages), one_at_least.stopped_at) == (1, 6)


def test_a_filter_spares_the_inflating() -> None:
    bad = record(stored(0, b"no zlib", sys_flag=1, TAGS="b"))
    assert read_messages(bad + packed(1, 5, TAGS="a"), QUEUE, subscription("T", "a", 0))[0][0].tags == "a"


async def test_large_bodies_are_inflated_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    inflate_record = reading_module.plain_messages

    def noting(one: StoredMessage, limit_bytes: int) -> list[StoredMessage]:
        plain = inflate_record(one, limit_bytes)
        threads.append((len(plain[0].body), threading.current_thread() is threading.main_thread()))
        return plain

    monkeypatch.setattr(reading_module, "plain_messages", noting)
    body = packed(0, 100) + packed(1, ON_LOOP_BYTES) + packed(2, 100)
    answer = await read_answer(body, QUEUE)
    assert [message.queue_offset for message in answer.messages] == [0, 1, 2]
    assert threads == [(100, True), (ON_LOOP_BYTES, False), (100, False)]


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
