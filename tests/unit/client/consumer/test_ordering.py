"""Queues that are read in order, by queue and by key: never two handlers on one queue or key at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import MessageStays
from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from orbitmq.protocol.requests.client import GetConsumerListByGroup, NotifyConsumerIdsChanged
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker

SOMEBODY = "!"
"""A member that sorts before every other: it gets the first queue."""


class Handling:
    """A handler that ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self.most_at_a_time = 0
        self.go = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.begun.append(message.body)
        self.most_at_a_time = max(self.most_at_a_time, len(self.begun) - len(self.ended))
        try:
            await self.go.wait()
        finally:
            self.ended.append(message.body)


@pytest.fixture
def queues(broker: FakeBroker) -> Queues:
    made = Queues(broker, "T", "%RETRY%g")
    made.put(b"0", b"1")
    broker.on(
        LockBatchMq,
        lambda request: JsonReply[LockBatchResponseBody](LockBatchResponseBody(request.body.mq_set)),
    )
    return made


@pytest.fixture(params=["ordered", "ordered_by_key"])
def order(request: pytest.FixtureRequest) -> dict[str, bool]:
    """Both orders: messages without a key are handled one after the other either way."""
    return {request.param: True}


@asynccontextmanager
async def reading(broker: FakeBroker, handle: Handling, **options: Any) -> AsyncIterator[PushConsumer]:
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options)
    consumer.subscribe("T", "*", handle)
    async with consumer:
        await until(lambda: handle.begun)
        yield consumer


def somebody_comes(broker: FakeBroker) -> None:
    broker.members["g"].append(SOMEBODY)
    broker.push(NotifyConsumerIdsChanged("g"))


def somebody_goes(broker: FakeBroker) -> None:
    broker.members["g"].remove(SOMEBODY)
    broker.push(NotifyConsumerIdsChanged("g"))


def unlocked(broker: FakeBroker) -> list[str]:
    return [queue.topic for request in broker.of(UnlockBatchMq) for queue in request.body.mq_set]


async def test_what_is_in_hand_when_a_queue_goes_is_done_first(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch, order: dict[str, bool]
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 60)
    handle = Handling()
    async with reading(broker, handle, **order) as consumer:
        held = consumer._assignment.held(MessageQueue("T", "broker-a", 0))  # type: ignore[union-attr]
        assert held is not None
        somebody_comes(broker)
        await until(lambda: held.dropped)
        handle.go.set()
        await broker.until(lambda: "T" in unlocked(broker))
        assert handle.ended == [b"0"]
        assert queues.offsets["T", 0] == 1
        told = [type(request) for request in broker.asked]
        assert told.index(UpdateConsumerOffset) < told.index(UnlockBatchMq)


async def test_a_queue_is_not_unlocked_under_a_handler(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch, order: dict[str, bool]
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle, rebalance_interval_ms=10, **order) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) > asked + 4)
        assert "T" not in unlocked(broker)
        handle.go.set()
        await broker.until(lambda: "T" in unlocked(broker))
        assert handle.ended == [b"0"]


async def test_a_queue_that_comes_back_waits_for_the_handler_it_left(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch, order: dict[str, bool]
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle, rebalance_interval_ms=10, **order) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        somebody_goes(broker)
        await until(lambda: consumer.queues)
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) > asked + 4)
        assert handle.begun == [b"0"]
        handle.go.set()
        await until(lambda: handle.ended[-1:] == [b"1"])
    assert handle.most_at_a_time == 1
    await broker.until(lambda: "T" in unlocked(broker))
    assert unlocked(broker).count("T") == 1


@pytest.mark.parametrize("in_time", [True, False])
async def test_closing_ends_handlers_of_queues_that_were_given_up(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch, order: dict[str, bool], in_time: bool
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle, **order) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        if in_time:
            asyncio.get_running_loop().call_later(0.05, handle.go.set)
        await consumer.close(5000 if in_time else 10)
        assert handle.ended == [b"0"]
    assert "T" in unlocked(broker)


async def test_a_lock_that_was_asked_for_is_given_up_by_who_leaves_before_the_answer(
    broker: FakeBroker, queues: Queues, order: dict[str, bool]
) -> None:
    broker.on(LockBatchMq, lambda request: None)
    consumer = PushConsumer("g", broker.address, **order)  # type: ignore[arg-type]
    consumer.subscribe("T", "*", Handling())
    starting = asyncio.create_task(consumer.start())
    await broker.until(lambda: broker.of(LockBatchMq))
    starting.cancel()
    await asyncio.wait([starting])
    [asked] = broker.of(LockBatchMq)
    await broker.until(lambda: unlocked(broker) == [queue.topic for queue in asked.body.mq_set])


class Failing:
    """A handler of bodies `key number`; those that end with `!` fail as often as told."""

    def __init__(self, times: int, outcome: Retry | None = None) -> None:
        self.times = times
        self.outcome = outcome
        self.handled: list[str] = []
        self.failed_at: list[float] = []
        self.in_hand: set[str] = set()

    async def __call__(self, message: ReceivedMessage) -> Retry | None:
        body = message.body.decode()
        key = body[0]
        assert key not in self.in_hand
        self.in_hand.add(key)
        await asyncio.sleep(0)
        self.in_hand.discard(key)
        if body.endswith("!") and message.reconsume_times < self.times:
            self.failed_at.append(asyncio.get_running_loop().time())
            if self.outcome is not None:
                return self.outcome
            raise ConnectionError("the bank does not answer")
        self.handled.append(body)
        return None


def put_by_key(queues: Queues, *bodies: str) -> None:
    for body in bodies:
        queues.put(body.encode(), KEYS=body[0])


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay levels of 20 ms, 60 ms and 180 ms."""
    monkeypatch.setattr("orbitmq.client.consumer.context.LEVELS_MS", (20, 60, 180))


@pytest.mark.usefixtures("levels")
async def test_a_failing_message_blocks_its_key_alone_and_becomes_a_dead_letter(broker: FakeBroker) -> None:
    queues, handle = Queues(broker, "T", "%RETRY%g"), Failing(99)
    queues.lock_all()
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    put_by_key(queues, "a1!", "a2", "b1", "a3", "b2")
    policy = DeadLetterPolicy(max_attempts=4, delay_levels=(1, 2, 3))
    async with reading_by_key(broker, handle, dead_letter_policy=policy):
        await until(lambda: len(handle.handled) == 4)
    assert handle.handled == ["b1", "b2", "a2", "a3"]
    pauses = [after - before for before, after in zip(handle.failed_at, handle.failed_at[1:], strict=False)]
    assert len(pauses) == 3
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.06, 0.18), strict=True))
    assert queues.offsets["T", 0] == 5
    (copy,) = broker.of(SendMessageV2)
    assert copy.topic == "%RETRY%g"
    assert "exceptionAttempt\x014" in (copy.properties or "")


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize("kind", ["ordered", "ordered_by_key"])
async def test_a_message_may_stay_until_it_is_handled(broker: FakeBroker, kind: str) -> None:
    queues, handle, errors = Queues(broker, "T"), Failing(5), list[Exception]()
    queues.lock_all()
    put_by_key(queues, "a1!", "a2")
    policy = DeadLetterPolicy(max_attempts=2, delay_levels=(1,), when_exhausted="stay")
    options: dict[str, Any] = {kind: True, "dead_letter_policy": policy, "on_error": errors.append}
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options)
    consumer.subscribe("T", "*", handle)
    async with consumer:
        await until(lambda: len(handle.handled) == 2)
    assert handle.handled == ["a1!", "a2"]
    assert len(handle.failed_at) == 5
    (stays,) = [error for error in errors if isinstance(error, MessageStays)]
    assert "a message of T (keys a) has failed 2 times and stays" in str(stays)
    assert queues.offsets["T", 0] == 2
    assert not broker.of(SendMessageV2)


@pytest.mark.usefixtures("levels")
async def test_an_ordered_queue_waits_for_the_level_that_the_handler_chose(broker: FakeBroker) -> None:
    queues, handle = Queues(broker, "T"), Failing(2, Retry(3))
    queues.lock_all()
    put_by_key(queues, "a1!", "b1")
    async with reading_by_key(broker, handle, ordered=True, ordered_by_key=False):
        await until(lambda: len(handle.handled) == 2)
    assert handle.handled == ["a1!", "b1"]
    assert handle.failed_at[1] - handle.failed_at[0] >= 0.18


@pytest.mark.parametrize("kind", ["ordered", "ordered_by_key"])
async def test_a_consumer_does_not_wait_for_a_pause_to_end(broker: FakeBroker, kind: str) -> None:
    queues, handle = Queues(broker, "T"), Failing(1, Retry(18))
    queues.lock_all()
    put_by_key(queues, "a1!", "a2")
    options: dict[str, Any] = {"ordered": False, "ordered_by_key": False, kind: True}
    async with reading_by_key(broker, handle, **options) as consumer:
        await until(lambda: handle.failed_at)
        async with asyncio.timeout(60):
            assert await consumer.drain(3_600_000)
    assert handle.handled == []
    assert queues.offsets.get(("T", 0), 0) == 0


async def test_a_handler_by_key_may_close_its_consumer(broker: FakeBroker) -> None:
    queues, closed = Queues(broker, "T"), list[bytes]()
    queues.lock_all()
    put_by_key(queues, "a1", "b1")
    consumer = PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, ordered_by_key=True, concurrency=1
    )

    async def handle(message: ReceivedMessage) -> None:
        await consumer.close(3_600_000)
        closed.append(message.body)

    consumer.subscribe("T", "*", handle)
    async with consumer, asyncio.timeout(60):
        await consumer.wait_closed()
        await until(lambda: closed)
    assert closed == [b"a1"]


async def test_a_handler_by_key_that_somebody_cancels_is_called_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.AGAIN_SECONDS", 0.01)
    queues, handled = Queues(broker, "T"), list[bytes]()
    queues.lock_all()
    put_by_key(queues, "a1", "a2")
    called: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        if called.empty() and not handled and not hasattr(handle, "seen"):
            handle.seen = True  # type: ignore[attr-defined]
            called.put_nowait(asyncio.current_task())
            await asyncio.Event().wait()
        handled.append(message.body)

    async with reading_by_key(broker, handle):
        task = await called.get()
        assert task is not None
        task.cancel()
        await until(lambda: len(handled) == 2)
    assert handled == [b"a1", b"a2"]


@asynccontextmanager
async def reading_by_key(broker: FakeBroker, handle: Any, **options: Any) -> AsyncIterator[PushConsumer]:
    options = {"consume_from_where": FIRST_OFFSET, "ordered_by_key": True} | options
    consumer = PushConsumer("g", broker.address, **options)
    consumer.subscribe("T", "*", handle)
    async with consumer:
        yield consumer


async def test_a_lock_that_is_lost_while_a_queue_waits_for_its_turn_counts(
    broker: FakeBroker, order: dict[str, bool]
) -> None:
    """Another member has the queue by then: both would handle its messages at the same time."""
    queues, handle, granted = Queues(broker, "T", "%RETRY%g", queues=2), Handling(), {0, 1}
    queues.put(b"0")
    queues.put(b"1", queue_id=1)
    broker.on(
        LockBatchMq,
        lambda request: JsonReply[LockBatchResponseBody](
            LockBatchResponseBody([one for one in request.body.mq_set if one.queue_id in granted])
        ),
    )
    async with reading(broker, handle, **order, concurrency=1) as consumer:
        await until(lambda: len(consumer.queues) == 2)
        second = 1 - int(handle.begun[0])
        assert consumer._assignment is not None
        waiting = consumer._assignment.held(consumer.queues[second])
        assert waiting is not None
        await until(lambda: len(waiting))
        await asyncio.sleep(0.05)  # it waits behind the first message
        granted.discard(second)
        await until(lambda: not waiting.locked)
        handle.go.set()
        await asyncio.sleep(0.3)
        assert len(handle.begun) == 1
        granted.add(second)
        await until(lambda: len(handle.begun) == 2)
