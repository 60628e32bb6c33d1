"""Messages that a handler holds back: they come again in this consumer, and no attempt is used up."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import InvalidArgument, InvalidResult, PermanentFailure
from orbitmq.client.core.handlers import HoldBack, Outcome, Retry, checked
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.middleware import Middleware
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker


@pytest.mark.parametrize("how", ["raised", "returned", "plain", "through middleware", "ordered"])
async def test_a_held_back_message_comes_again_without_a_used_attempt(broker: FakeBroker, how: str) -> None:
    queues, attempts, done = Queues(broker, "T"), list[int](), asyncio.Event()
    queues.lock_all()
    queues.put(b"0", UNIQ_KEY="ID")
    loop = asyncio.get_running_loop()

    def handle(message: ReceivedMessage) -> Outcome:
        attempts.append(message.reconsume_times)
        if len(attempts) == 3:
            loop.call_soon_threadsafe(done.set)
            return None
        if how == "returned":
            return HoldBack(1)
        raise HoldBack(1)

    async def async_handle(message: ReceivedMessage) -> Outcome:
        return handle(message)

    async with PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        ordered=how == "ordered",
        middleware=[Middleware()] if how == "through middleware" else [],
    ) as consumer:
        consumer.subscribe("T", "*", handle if how == "plain" else async_handle)
        async with asyncio.timeout(60):
            await done.wait()
    assert attempts == [0, 0, 0]
    assert queues.offsets[("T", 0)] == 1
    assert not broker.of(ConsumerSendMsgBack)


async def test_a_batch_names_what_is_held_back_and_what_is_retried(broker: FakeBroker) -> None:
    queues, calls, done = Queues(broker, "T"), list[list[bytes]](), asyncio.Event()
    queues.put(b"done", b"busy", b"failed")

    async def handle(messages: list[ReceivedMessage]) -> Retry | None:
        calls.append([message.body for message in messages])
        if len(calls) > 1:
            done.set()
            return None
        by_body = {message.body: message for message in messages}
        failed = Retry(3, messages=[by_body[b"failed"]])
        return HoldBack(1, messages=[by_body[b"busy"]], others=failed)

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle, max_messages=3, max_wait_ms=1000)
        async with asyncio.timeout(60):
            await done.wait()
            await broker.until(lambda: broker.of(ConsumerSendMsgBack))
    assert calls == [[b"done", b"busy", b"failed"], [b"busy"]]
    assert [request.delay_level for request in broker.of(ConsumerSendMsgBack)] == [3]


async def test_a_consumer_that_ends_leaves_held_back_messages_to_the_next(broker: FakeBroker) -> None:
    queues, called = Queues(broker, "T"), asyncio.Event()
    queues.put(b"0")

    async def handle(message: ReceivedMessage) -> Outcome:
        called.set()
        return HoldBack(60_000)

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        async with asyncio.timeout(60):
            await called.wait()
    assert queues.offsets.get(("T", 0), 0) == 0


async def test_a_permanent_failure_becomes_a_dead_letter_at_once(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    broker.topic("%RETRY%g")
    broker.on(SendMessageV2, lambda _: SendReply("id", 0, 0))
    queues.put(b"0")

    async def handle(message: ReceivedMessage) -> None:
        raise PermanentFailure("no such account")

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(SendMessageV2))
    [copy] = broker.of(SendMessageV2)
    assert copy.max_reconsume_times == 0
    assert "PermanentFailure" in copy.properties


@pytest.mark.parametrize("pause_ms", [0, -1, 60_001, True, "1"])
def test_a_pause_has_limits(pause_ms: object) -> None:
    with pytest.raises(InvalidArgument, match="HoldBack: pause_ms has to be a number from 1 to 60000"):
        HoldBack(pause_ms)  # type: ignore[arg-type]


def test_others_go_with_messages() -> None:
    with pytest.raises(InvalidArgument, match="goes with messages="):
        HoldBack(1, others=Retry())
    with pytest.raises(InvalidArgument, match="others has to be"):
        HoldBack(1, messages=[], others=HoldBack(1))
    stranger = ReceivedMessage.__new__(ReceivedMessage)
    for outcome in (
        HoldBack(1, messages=[stranger]),
        HoldBack(1, messages=[], others=Retry(messages=[stranger])),
    ):
        with pytest.raises(InvalidResult, match="was not given"):
            checked(outcome, [], batch=True)
