"""`once` over the store in memory: outcomes of single messages and batches, plain and async."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.client import HoldBack, InvalidArgument, PushConsumer, ReceivedMessage, Reply, Retry
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.idempotence import Event, InvalidKey, KeyConflict, MemoryStore, Once, StoreUnavailable, once
from orbitmq.protocol.requests.admin import BrokerConfigReply, GetBrokerConfig
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.client_messages import received
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker

Run = Callable[[Any, Any], Any]


def decorated(guard: Once, function: Callable[[Any], Any], asynchronous: bool) -> Any:
    if not asynchronous:
        return guard(function)

    async def handle(given: Any) -> Any:
        return function(given)

    return guard(handle)


async def run(handler: Any, given: Any) -> Any:
    result = handler(given)
    return await result if inspect.isawaitable(result) else result


def guarded(**options: Any) -> Once:
    return once(MemoryStore(), **{"group": "billing", "name": "charge", **options})


def order(number: int, body: bytes = b"body", **properties: str) -> ReceivedMessage:
    return received(number, body, **{"UNIQ_KEY": f"ID{number}", **properties})


@pytest.fixture(params=[False, True], ids=["plain", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_duplicate_is_a_success_without_an_effect(asynchronous: bool) -> None:
    seen, guard = list[ReceivedMessage](), guarded()
    handler = decorated(guard, seen.append, asynchronous)
    assert await run(handler, order(1)) is None
    assert await run(handler, order(1)) is None
    assert await run(handler, order(2)) is None
    assert len(seen) == 2
    assert (guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE]) == (2, 1)


@pytest.mark.parametrize("failure", [ValueError("no"), Retry(3), "returned", HoldBack(5)], ids=str)
async def test_a_handler_that_failed_leaves_nothing_behind(asynchronous: bool, failure: Any) -> None:
    # So that a retry runs, and a redrive from the dead letters does, too.
    failures, guard = [failure], guarded()

    def handle(message: ReceivedMessage) -> Any:
        if failures:
            failed = failures.pop()
            if failed == "returned":
                return Retry(3)
            raise failed
        return None

    handler = decorated(guard, handle, asynchronous)
    if isinstance(failure, ValueError):
        with pytest.raises(ValueError, match="no"):
            await run(handler, order(1))
    else:
        outcome = await run(handler, order(1))
        assert isinstance(outcome, Retry)
        assert isinstance(outcome, HoldBack) == isinstance(failure, HoldBack)
    assert guard.store.count() == 0  # type: ignore[union-attr]
    assert await run(handler, order(1)) is None
    assert (guard.counts[Event.FAILED], guard.counts[Event.HANDLED]) == (1, 1)


async def test_a_delivery_in_flight_elsewhere_is_held_back_at_once() -> None:
    guard = guarded(busy_pause_ms=7)
    began, end = asyncio.Event(), asyncio.Event()

    @guard
    async def handle(message: ReceivedMessage) -> None:
        began.set()
        await end.wait()

    first = asyncio.create_task(handle(order(1)))
    await began.wait()
    assert await handle(order(1)) == HoldBack(7)
    end.set()
    assert await first is None
    assert await handle(order(1)) is None
    assert (guard.counts[Event.IN_FLIGHT], guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE]) == (
        1,
        1,
        1,
    )


async def test_a_cancelled_handler_leaves_nothing_behind() -> None:
    guard, began = guarded(), asyncio.Event()

    @guard
    async def handle(message: ReceivedMessage) -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(handle(order(1)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await guard.store.async_count() == 0  # type: ignore[union-attr]


async def test_another_body_under_a_known_key_is_an_error_that_shows_both(asynchronous: bool) -> None:
    seen, guard = list[Any](), guarded(key="orderId")
    handler = decorated(guard, seen.append, asynchronous)
    await run(handler, order(1, b"10 EUR", orderId="17"))
    await run(handler, order(2, b"10 EUR", orderId="17"))
    with pytest.raises(KeyConflict) as raised:
        await run(handler, order(3, b"99 EUR", orderId="17"))
    error = raised.value
    assert (error.message_id, error.other_message_id, error.key) == ("ID3", "ID1", "17")
    assert error.fingerprint != error.other_fingerprint
    for part in ("ID1", "ID3", error.fingerprint, error.other_fingerprint, "'17'"):
        assert part in str(error)
    assert len(seen) == 1
    assert guard.counts[Event.CONFLICT] == 1
    loose = decorated(guarded(key="orderId", fingerprint=None), seen.append, asynchronous)
    await run(loose, order(1, b"10 EUR", orderId="17"))
    assert await run(loose, order(3, b"99 EUR", orderId="17")) is None


async def test_the_same_key_is_another_one_for_another_group_topic_or_handler() -> None:
    store, seen = MemoryStore(), list[Any]()
    for group, name in (("a", "h"), ("b", "h"), ("a", "g")):
        once(store, "k", group=group, name=name)(seen.append)(order(1, k="1"))
    other = order(1, k="1")
    other.topic = "other"
    once(store, "k", group="a", name="h")(seen.append)(other)
    assert len(seen) == 4


async def test_a_kept_reply_is_given_again(asynchronous: bool) -> None:
    replies = iter([Reply(b"\xff1", {"a": "b"}), Reply(b"2")])
    handler = decorated(guarded(keep_result=True), lambda message: next(replies), asynchronous)
    first, again = await run(handler, order(1)), await run(handler, order(1))
    assert (again.body, dict(again.properties)) == (first.body, first.properties) == (b"\xff1", {"a": "b"})
    forgetful = decorated(guarded(), lambda message: Reply(b"1"), asynchronous)
    assert [await run(forgetful, order(1)) is None, await run(forgetful, order(1)) is None] == [False, True]


async def test_an_idempotency_key_for_others_is_the_same_each_time() -> None:
    handler = guarded()(lambda message: None)
    assert handler.idempotency_key(order(1)) == handler.idempotency_key(order(1))
    assert handler.idempotency_key(order(1)) != handler.idempotency_key(order(2))
    assert len(handler.idempotency_key(order(1))) == 64


# Batches.


async def test_a_batch_gets_the_new_messages_alone_and_each_key_once(asynchronous: bool) -> None:
    seen, guard = list[list[ReceivedMessage]](), guarded()
    handler = decorated(guard, seen.append, asynchronous)
    await run(handler, [order(1)])
    twins = [order(2), order(2)]
    assert await run(handler, [order(1), *twins, order(3)]) is None
    assert [[one.message_id for one in batch] for batch in seen] == [["ID1"], ["ID2", "ID3"]]
    assert await run(handler, [order(1), order(3)]) is None
    assert len(seen) == 2
    assert (guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE]) == (3, 4)


@pytest.mark.parametrize("raised", [False, True])
async def test_messages_that_a_batch_has_come_again_are_released_with_their_twins(
    asynchronous: bool, raised: bool
) -> None:
    guard = guarded()
    failing = True

    def handle(messages: list[ReceivedMessage]) -> Any:
        retry = Retry(2, messages=[one for one in messages if one.message_id == "ID2"] if failing else [])
        if raised and failing:
            raise retry
        return retry if failing else None

    handler = decorated(guard, handle, asynchronous)
    batch = [order(1), order(2), order(2)]
    outcome = await run(handler, batch)
    assert isinstance(outcome, Retry)
    assert outcome.messages == tuple(batch[1:])
    assert outcome.delay_level == 2
    failing = False
    assert await run(handler, batch) is None
    assert (guard.counts[Event.HANDLED], guard.counts[Event.FAILED]) == (2, 1)


async def test_messages_of_a_batch_in_flight_elsewhere_are_held_back_alone() -> None:
    guard = guarded()
    began, end = asyncio.Event(), asyncio.Event()

    @guard
    async def handle(messages: list[ReceivedMessage]) -> Retry | None:
        if messages[0].message_id == "ID1":
            began.set()
            await end.wait()
        elif messages[0].message_id == "ID9":
            raise ValueError("no")
        return Retry(3) if messages[0].message_id == "ID2" else None

    first = asyncio.create_task(handle([order(1)]))
    await began.wait()
    batch = [order(1), order(2)]
    outcome = await handle(batch)
    assert isinstance(outcome, HoldBack)
    assert outcome.messages == (batch[0],)
    assert isinstance(outcome.others, Retry)
    assert (outcome.others.messages, outcome.others.delay_level) == ((batch[1],), 3)
    # Of an exception, too, only those hear that were handled.
    batch = [order(1), order(9)]
    outcome = await handle(batch)
    assert isinstance(outcome, HoldBack)
    assert isinstance(outcome.others, Retry)
    assert outcome.others.messages == (batch[1],)
    assert isinstance(outcome.__cause__, ValueError)
    end.set()
    await first


async def test_a_batch_gives_refused_messages_up_and_handles_the_others_next() -> None:
    guard, seen = guarded(key="k"), list[Any]()
    handler = guard(seen.extend)
    batch = [order(1, k="1"), order(2, b"other", k="1"), order(3), order(4, k="4")]
    outcome = handler(batch)
    assert isinstance(outcome, HoldBack)
    assert outcome.messages == (batch[0], batch[3])
    given_up = outcome.others
    assert isinstance(given_up, Retry)
    assert (given_up.messages, given_up.delay_level) == ((batch[1], batch[2]), -1)
    assert not seen
    assert handler([batch[0], batch[3]]) is None
    assert len(seen) == 2
    assert (guard.counts[Event.CONFLICT], guard.counts[Event.INVALID_KEY]) == (1, 1)
    assert handler([]) is None


# Arguments.


class PlainOnly:
    retention_hours = 1.0

    def unit(self) -> Any:
        raise StoreUnavailable("the database is away")

    def purge(self, now_ms: int) -> int:
        return 0

    def count(self) -> int:
        return 0


def test_a_store_that_cannot_be_reached_holds_the_message_back() -> None:
    guard = once(PlainOnly(), group="g")
    with pytest.raises(HoldBack) as raised:
        guard(lambda message: None)(order(1))
    assert isinstance(raised.value.__cause__, StoreUnavailable)
    assert guard.counts[Event.UNAVAILABLE] == 1


def test_arguments_that_cannot_be_meant_are_refused_where_they_are_given() -> None:
    store: Any = MemoryStore()

    async def handle(message: ReceivedMessage) -> None: ...

    for wrong, text in (
        (lambda: once("sqlite://"), "store has to be one, such as SqlAlchemyStore"),  # type: ignore[arg-type]
        (lambda: once(store, 17), "key has to be the name of a property"),  # type: ignore[arg-type]
        (lambda: once(store, ""), "key has to be the name of a property"),
        (lambda: once(store, fingerprint="md5"), "fingerprint has to be a function"),  # type: ignore[arg-type]
        (lambda: once(store, name=""), "name has to be a text of 1 to 255 characters"),
        (lambda: once(store, group="g" * 256), "group has to be a text of 1 to 255 characters"),
        (lambda: once(store, busy_pause_ms=0), "busy_pause_ms has to be a number from 1 to 60000"),
        (lambda: once(store)(None), "it decorates a handler, not None"),  # type: ignore[arg-type]
        (lambda: once(PlainOnly())(handle), "PlainOnly is for plain handlers, and .*handle is async"),
        (lambda: once(store)(lambda message: None)(order(1)), "group is not known outside of a consumer"),
        (lambda: once(store).claim(None, order(1)), "needs name= and group="),
        (lambda: guarded().claim(None, order(1)), "MemoryStore cannot join a transaction"),
        (lambda: MemoryStore(max_entries=0), "max_entries has to be 1 or more"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            wrong()


def test_a_message_without_a_key_is_an_error_of_the_handler() -> None:
    guard = guarded(key="k")
    with pytest.raises(InvalidKey, match="no property 'k'"):
        guard(lambda message: None)(order(1))
    assert guard.counts[Event.INVALID_KEY] == 1


# Within a consumer.


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_consumer_handles_what_is_delivered_three_times_once(
    broker: FakeBroker, asynchronous: bool, ordered: bool
) -> None:
    queues, seen, lock = Queues(broker, "T"), list[str](), threading.Lock()
    queues.lock_all()
    for _ in range(3):
        for number in range(5):
            queues.put(b"body", UNIQ_KEY=f"ID{number}")
    guard = once(MemoryStore())

    def handle(message: ReceivedMessage) -> None:
        with lock:
            seen.append(message.message_id)

    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, ordered=ordered)
    consumer.subscribe("T", "*", decorated(guard, handle, asynchronous))
    async with consumer:
        async with asyncio.timeout(60):
            await until(lambda: guard.counts[Event.DUPLICATE] == 10)
    assert sorted(seen) == [f"ID{number}" for number in range(5)]
    assert queues.offsets[("T", 0)] == 15
    assert not broker.of(ConsumerSendMsgBack)


async def test_a_short_retention_is_warned_of_at_start_with_both_figures(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    Queues(broker, "T")
    broker.on(GetBrokerConfig, lambda _: BrokerConfigReply("{}", b"a=1\nfileReservedTime=72\n"))
    guard = once(MemoryStore(retention_hours=24))
    with caplog.at_level(logging.WARNING, "orbitmq.idempotence"):
        async with PushConsumer("g", broker.address) as consumer:
            consumer.subscribe("T", "*", guard(lambda message: None))
            async with asyncio.timeout(60):
                await until(lambda: caplog.records)
    assert "kept for 24 h, dead letters for 72 h" in caplog.text


async def test_old_keys_are_deleted_while_a_consumer_runs(broker: FakeBroker) -> None:
    Queues(broker, "T")
    store = MemoryStore(retention_hours=0)
    guard = once(store, dead_letter_retention_hours=0)
    once(store, group="g", name="old")(lambda message: None)(order(1))
    await asyncio.sleep(0.002)
    async with PushConsumer("g", broker.address) as consumer:
        consumer.subscribe("T", "*", guard(lambda message: None))
        async with asyncio.timeout(60):
            await until(lambda: guard.counts[Event.PURGED])
    assert store.count() == 0


def test_memory_is_bounded() -> None:
    store = MemoryStore(max_entries=3)
    handler = once(store, group="g")(lambda message: None)
    for number in range(5):
        handler(order(number))
    assert store.count() == 3
