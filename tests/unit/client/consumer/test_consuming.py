"""Results and exceptions of handlers, their effect, and the texts of the log and the dead letter."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.dead_letters import MAX_TEXT_CHARACTERS, reason_of
from orbitmq.client.core.errors import CannotIterate, InvalidResult, WrongEventLoop
from orbitmq.client.core.handlers import RETRY, Handler, Retry
from orbitmq.client.core.message import Message, ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.errors import NoPermission, Refused
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


async def consumed(broker: FakeBroker, handler: Handler, *, backs: int, **options: Any) -> list[Exception]:
    """Has one message handled, waits for so many messages sent back, and gives what `on_error` heard."""
    queues, errors = Queues(broker, "T"), list[Exception]()
    queues.put(b"0", UNIQ_KEY="ID", KEYS="order-17")
    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, on_error=errors.append, **options
    ) as consumer:
        consumer.subscribe("T", "*", handler)
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) >= backs)
        await until(lambda: queues.messages and consumer.queues)
    assert queues.offsets[("T", 0)] == 1
    assert len(broker.of(ConsumerSendMsgBack)) == backs
    return errors


@pytest.mark.parametrize("result", [False, 0, "ok", RETRY.__class__])
async def test_a_result_that_is_none_is_told_and_leads_to_a_retry(broker: FakeBroker, result: Any) -> None:
    async def handle(message: ReceivedMessage) -> Any:
        return result

    [error] = await consumed(broker, handle, backs=1)
    assert isinstance(error, InvalidResult)
    assert "None or True" in str(error)


@pytest.mark.parametrize("plain", [False, True])
async def test_true_is_done(broker: FakeBroker, plain: bool) -> None:
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(message: ReceivedMessage) -> Any:
        loop.call_soon_threadsafe(seen.set)
        return True

    async def async_handle(message: ReceivedMessage) -> Any:
        return handle(message)

    queues = Queues(broker, "T")
    queues.put(b"0")
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle if plain else async_handle)
        await asyncio.wait_for(seen.wait(), 120)
    assert queues.offsets[("T", 0)] == 1
    assert not broker.of(ConsumerSendMsgBack)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_retry_may_be_raised(broker: FakeBroker, plain: bool) -> None:
    def handle(message: ReceivedMessage) -> None:
        raise Retry(5)

    async def async_handle(message: ReceivedMessage) -> None:
        raise Retry(5)

    assert await consumed(broker, handle if plain else async_handle, backs=1) == []
    assert broker.of(ConsumerSendMsgBack)[0].delay_level == 5


async def test_a_failure_is_logged_with_what_finds_the_message_again(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise ValueError("no such\norder")

    with caplog.at_level(logging.DEBUG, "orbitmq"):
        await consumed(broker, handle, backs=1)
    record, traceback = [row for row in caplog.records if row.name == "orbitmq.client.handlers"]
    text = record.getMessage()
    line = handle.__code__.co_firstlineno + 1
    assert text.endswith(
        f"ValueError: no such\\norder, at {Path(__file__).relative_to(Path.cwd())}:{line} in handle"
    )
    for part in ("message_id=ID", "keys=order-17", "queue=broker-a:0:0", "attempt=1"):
        assert part in text
    assert (record.message_id, record.attempt) == ("ID", 1)  # type: ignore[attr-defined]
    assert (record.levelno, record.exc_info, traceback.levelno) == (logging.WARNING, None, logging.DEBUG)
    assert traceback.exc_info is not None


async def test_a_dead_letter_carries_the_reason(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    broker.topic("%RETRY%g", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    queues.put(b"0", UNIQ_KEY="ID", own="kept")

    async def handle(message: ReceivedMessage) -> None:
        try:
            raise KeyError("price")
        except KeyError as error:
            raise Retry(-1) from error

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(SendMessageV2))
        client_id = consumer.client_id
    [copy] = broker.of(SendMessageV2)
    assert (copy.topic, copy.reconsume_times, copy.max_reconsume_times) == ("%RETRY%g", 1, 0)
    properties = decode_properties((copy.properties or "").encode())
    assert properties["exception"] == "KeyError"
    assert properties["exceptionText"] == "'price'"
    assert (properties["exceptionConsumer"], properties["exceptionAttempt"]) == (client_id, "1")
    assert (properties["own"], properties["UNIQ_KEY"]) == ("kept", "ID")
    assert "DELAY" not in properties
    assert not broker.of(ConsumerSendMsgBack)


async def test_a_dead_letter_that_cannot_be_sent_as_a_copy_is_kept_without_the_reason(
    broker: FakeBroker,
) -> None:
    broker.topic("%RETRY%g", 1)
    broker.on(SendMessageV2, lambda _: Refused(13, "the message is illegal, maybe too large"))

    async def handle(message: ReceivedMessage) -> Retry:
        return Retry(-1)

    [error] = await consumed(broker, handle, backs=1)
    assert "too large" in str(error)
    assert broker.of(ConsumerSendMsgBack)[0].delay_level == -1


def test_a_reason_is_bounded_and_fits_into_a_property() -> None:
    retry = Retry()
    retry.__cause__ = RuntimeError("line\none\x01\x02\x00 " + "x" * 10_000)
    reason = reason_of(retry, "10.0.0.1@4711", 3)
    assert reason["exceptionText"].startswith("line one xxx")
    assert len(reason["exceptionText"]) == MAX_TEXT_CHARACTERS
    assert reason_of(Retry(), "c", 1)["exception"] == "Retry"
    retry.__cause__ = InvalidResult()
    assert reason_of(retry, "c", 1)["exception"] == "InvalidResult"
    assert "exceptionText" not in reason_of(retry, "c", 1)


@pytest.mark.parametrize("ordered", [False, True])
async def test_several_handlers_may_await_close_at_once(broker: FakeBroker, ordered: bool) -> None:
    queues = Queues(broker, "T", queues=3)
    queues.lock_all()
    for queue_id in range(3):
        queues.put(b"x", queue_id=queue_id)
    all_there = asyncio.Barrier(3)
    consumer = PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        ordered=ordered,
        close_timeout_ms=300_000,
    )

    async def handle(message: ReceivedMessage) -> None:
        await all_there.wait()
        await consumer.close()

    consumer.subscribe("T", "*", handle)
    async with asyncio.timeout(60):  # long before the consumer gives its handlers up
        async with consumer:
            await consumer.wait_closed()


async def test_iterating_needs_something_to_come(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    consumer = PushConsumer("g", broker.address)
    with pytest.raises(CannotIterate, match="subscribe"):
        aiter(consumer)
    consumer.subscribe("T", "*", Seen())
    with pytest.raises(CannotIterate, match="has a handler"):
        aiter(consumer)
    consumer.subscribe("U")
    aiter(consumer)


def test_a_producer_in_a_second_event_loop_says_so() -> None:

    async def start() -> tuple[FakeBroker, Producer, PushConsumer]:
        fake = await FakeBroker().start()
        fake.topic("T", 1)
        producer = await Producer("g", fake.address).start()
        return fake, producer, await PushConsumer("g", fake.address).start()

    async def use(producer: Producer, consumer: PushConsumer) -> None:
        for work in (producer.send(Message("T", b"x")), producer.close(), consumer.close()):
            with pytest.raises(WrongEventLoop, match="another event loop"):
                await asyncio.wait_for(work, 120)

    async def end(fake: FakeBroker, producer: Producer, consumer: PushConsumer) -> None:
        await producer.close()
        await consumer.close()
        await fake.stop()

    with asyncio.Runner() as first:
        fake, producer, consumer = first.run(start())
        with asyncio.Runner() as second:
            second.run(use(producer, consumer))
        first.run(end(fake, producer, consumer))


async def test_consuming_without_permission_ends_at_the_start(broker: FakeBroker) -> None:
    Queues(broker, "T")
    broker.on(Heartbeat, lambda _: Refused(16, "username cannot be null."))
    consumer = PushConsumer("g", broker.address)
    consumer.subscribe("T")
    with pytest.raises(NoPermission, match="access_key="):
        await asyncio.wait_for(consumer.start(), 120)


async def test_a_send_that_nobody_signed_is_tried_once(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    broker.on(SendMessageV2, lambda _: Refused(16, "username cannot be null."))
    async with Producer("g", broker.address) as producer:
        with pytest.raises(NoPermission, match="access_key="):
            await producer.send(Message("T", b"x"))
    assert len(broker.of(SendMessageV2)) == 1
