"""Bodies that inflate to more than a consumer takes: their memory, and the fate of their messages."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.pull_consumer import PullConsumer
from orbitmq.client.core.errors import BodyTooLarge, InvalidArgument, UnreadableBody
from orbitmq.client.core.message import ReceivedMessage, UnreadableMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.message import COMPRESSED
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_messages import record, stored
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker

MIB = 1 << 20
LIMIT = 1000


def queue_of(broker: FakeBroker, *bodies: bytes) -> Queues:
    """A topic with one queue of messages that were compressed."""
    queues = Queues(broker, "T", "%RETRY%g")
    queues.messages["T", 0] = [
        record(stored(n, zlib.compress(body), sys_flag=COMPRESSED, UNIQ_KEY=f"ID{n}"))
        for n, body in enumerate(bodies)
    ]
    return queues


async def test_a_threshold_in_bytes_counts_inflated_bodies(broker: FakeBroker) -> None:
    queue_of(broker, *[bytes(MIB)] * 8)
    busy, may_end = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(len(message.body))
        busy.set()
        await may_end.wait()

    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, pull_threshold_size_for_queue_mib=1
    ) as consumer:
        consumer.subscribe("T", "*", handle)
        await asyncio.wait_for(busy.wait(), 120)
        # 32 messages are asked for at a time: with the second one more than 1 MiB is held.
        await until(lambda: len(seen) == 2)
        assert [one.queue_offset for one in broker.of(PullMessage) if one.topic == "T"] == [0, 1]
        may_end.set()
        await until(lambda: len(seen) == 8)
    assert seen == [MIB] * 8


async def test_a_message_that_is_too_large_is_retried_without_its_handler(broker: FakeBroker) -> None:
    queues = queue_of(broker, b"first", bytes(LIMIT + 1), b"last")
    seen, errors = Seen(), list[Exception]()
    async with PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        max_inflated_body_bytes=LIMIT,
        on_error=errors.append,
    ) as consumer:
        consumer.subscribe("T", "*", seen)
        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
        await seen.count(2)
    assert sorted(message.body for message in seen) == [b"first", b"last"]
    [back] = broker.of(ConsumerSendMsgBack)
    assert back.origin_msg_id == "ID1"
    assert [type(error) for error in errors] == [BodyTooLarge]
    assert "raise max_inflated_body_bytes" in str(errors[0])
    assert queues.offsets["T", 0] == 3


async def test_a_message_that_is_given_up_is_kept_as_it_was_stored_with_the_reason(
    broker: FakeBroker,
) -> None:
    queue_of(broker, bytes(LIMIT + 1))
    broker.on(SendMessageV2, lambda _: SendReply("id", 0, 0))
    async with PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        max_inflated_body_bytes=LIMIT,
        max_reconsume_times=0,
    ) as consumer:
        consumer.subscribe("T", "*", Seen())
        await broker.until(lambda: broker.of(SendMessageV2))
    [copy] = broker.of(SendMessageV2)
    assert copy.sys_flag & COMPRESSED
    assert zlib.decompress(bytes(copy.body)) == bytes(LIMIT + 1)
    properties = decode_properties((copy.properties or "").encode())
    assert "max_inflated_body_bytes" in "".join(properties.values())


async def test_of_a_batch_the_readable_messages_are_handled(broker: FakeBroker) -> None:
    queue_of(broker, b"first", bytes(LIMIT + 1), b"last")
    got: list[list[bytes]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        got.append([message.body for message in messages])

    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, max_inflated_body_bytes=LIMIT
    ) as consumer:
        consumer.subscribe("T", "*", handle, max_messages=3)
        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
        await until(lambda: got)
    assert got == [[b"first", b"last"]]


async def test_an_ordered_consumer_repeats_it_in_its_place(broker: FakeBroker) -> None:
    queues = queue_of(broker, b"first", bytes(LIMIT + 1), b"last")
    queues.lock_all()
    broker.on(SendMessageV2, lambda _: SendReply("id", 0, 0))
    seen = Seen()
    async with PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        max_inflated_body_bytes=LIMIT,
        ordered=True,
        max_reconsume_times=1,
        suspend_current_queue_time_ms=10,
    ) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(2)
    assert [message.body for message in seen] == [b"first", b"last"]
    assert len(broker.of(SendMessageV2)) == 1


async def test_an_iterator_gets_it_as_an_error_and_goes_on(broker: FakeBroker) -> None:
    queue_of(broker, bytes(LIMIT + 1), b"last")
    got: list[bytes | Exception] = []
    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, max_inflated_body_bytes=LIMIT
    ) as consumer:
        consumer.subscribe("T")
        async for message in consumer:
            try:
                got.append(message.body)
            except UnreadableBody as error:
                got.append(error)
            if len(got) == 2:
                break
    assert isinstance(got[0], BodyTooLarge)
    assert got[1] == b"last"


async def test_a_pull_gives_it_beside_the_others_and_ends_at_its_bytes(broker: FakeBroker) -> None:
    queue_of(broker, b"first", bytes(LIMIT + 1), b"last" * 100, b"more")
    queue = MessageQueue("T", "broker-a", 0)
    async with PullConsumer("g", broker.address, max_inflated_body_bytes=LIMIT) as consumer:
        pulled = await consumer.pull(queue, 0, max_bytes=300)
        assert [message.body_error is None for message in pulled] == [True, False, True]
        assert (pulled[0].body, pulled[2].body, pulled.next_offset) == (b"first", b"last" * 100, 3)
        assert isinstance(pulled[1], UnreadableMessage)
        with pytest.raises(BodyTooLarge, match="raise max_inflated_body_bytes"):
            _ = pulled[1].body
        rest = await consumer.pull(queue, pulled.next_offset)
        assert ([message.body for message in rest], rest.next_offset) == ([b"more"], 4)


@pytest.mark.parametrize("wrong", [0, (1 << 30) + 1])
def test_a_limit_out_of_range_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidArgument, match="max_inflated_body_bytes"):
        PullConsumer("g", "127.0.0.1:9876", max_inflated_body_bytes=wrong)
