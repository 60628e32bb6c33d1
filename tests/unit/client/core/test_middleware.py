"""Code of the application around sends and handlers, with a broker that runs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any

import pytest

from orbitmq import (
    FIRST_OFFSET,
    HandleNext,
    HandlerCall,
    HandlerTimeout,
    InvalidArgument,
    InvalidResult,
    Message,
    Middleware,
    Outcome,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Reply,
    Retry,
    SendCall,
    SendNext,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from orbitmq.testing import Isolated
from tests.kit.client_queues import until


class Told(Middleware):
    """Writes down when a call begins and ends."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self._name = name
        self._lines = lines

    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        self._lines.append(f"{self._name} {call.operation} {len(call.messages)}")
        call.add_properties({"by": "".join(call.messages[0].properties.get("by", "")) + self._name})
        try:
            return await call_next()
        finally:
            self._lines.append(f"{self._name} ended")

    async def handle(self, call: HandlerCall, call_next: HandleNext) -> Outcome:
        self._lines.append(f"{self._name} handles {len(call.messages)}")
        try:
            return await call_next()
        finally:
            self._lines.append(f"{self._name} ended")


class Each(Middleware):
    """Has a function in place of its methods."""

    def __init__(self, function: Any) -> None:
        self._function = function

    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        results: Sequence[SendResult] = await self._function(call, call_next)
        return results

    async def handle(self, call: HandlerCall, call_next: HandleNext) -> Outcome:
        outcome: Outcome = await self._function(call, call_next)
        return outcome


def producer_of(mine: Isolated, *middleware: Middleware) -> Producer:
    return Producer("p", mine.namesrv, middleware=middleware)


def consumer_of(mine: Isolated, *middleware: Middleware, **options: Any) -> PushConsumer:
    return PushConsumer(
        mine.group(), mine.namesrv, consume_from_where=FIRST_OFFSET, middleware=middleware, **options
    )


# Sends.


async def test_the_first_of_the_list_begins_first_and_ends_last(rocketmq_isolated: Isolated) -> None:
    topic, lines = rocketmq_isolated.topic(), list[str]()
    message = Message(topic, b"1", properties={"own": "kept"})
    async with producer_of(rocketmq_isolated, Told("a", lines), Told("b", lines)) as producer:
        await producer.send(message)
    assert lines == ["a send 1", "b send 1", "b ended", "a ended"]
    assert message.properties == {"own": "kept"}


async def test_every_way_of_sending_passes_and_the_properties_travel(rocketmq_isolated: Isolated) -> None:
    topic, lines, got = rocketmq_isolated.topic(queues=1), list[str](), list[str]()

    async def handle(message: ReceivedMessage) -> Reply | None:
        got.append(f"{message.body.decode()} {message.properties.get('by')}")
        return Reply(b"yes") if message.body == b"request" else None

    async with (
        TransactionProducer(
            "t",
            rocketmq_isolated.namesrv,
            middleware=[Told("a", lines)],
            check=lambda _: TransactionState.UNKNOWN,
        ) as producer,
        consumer_of(rocketmq_isolated) as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"send"))
        await producer.send_oneway(Message(topic, b"oneway"))
        await (await producer.submit(Message(topic, b"submit")))
        await producer.send_batch([Message(topic, b"batch-0"), Message(topic, b"batch-1")])
        assert await producer.send_all([Message(topic, b"all")]) == 1
        await producer.send_in_transaction(Message(topic, b"transaction"), lambda _: TransactionState.COMMIT)
        reply = await producer.request(Message(topic, b"request"), timeout_ms=20_000)
        assert reply.body == b"yes"
        await until(lambda: len(got) == 8)
    sent = ["send", "oneway", "submit", "batch-0", "batch-1", "all", "transaction", "request"]
    assert sorted(got) == sorted(f"{body} a" for body in sent)
    operations = ["send", "send_oneway", "submit", "send_batch", "send_all", "send_half", "request"]
    assert [line.split()[1] for line in lines if not line.endswith("ended")] == operations


async def test_a_send_that_middleware_tries_again_is_sent_once_more(rocketmq_isolated: Isolated) -> None:
    tries: list[Exception] = []

    async def again(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        try:
            return await call_next()
        except ConnectionError as error:
            tries.append(error)
            return await call_next()

    async def fails_at_first(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        if not tries:
            raise ConnectionError("first")
        return await call_next()

    topic = rocketmq_isolated.topic()
    async with producer_of(rocketmq_isolated, Each(again), Each(fails_at_first)) as producer:
        assert (await producer.send(Message(topic, b"1"))).queue.topic == topic
    assert len(tries) == 1


async def test_an_exception_of_middleware_is_what_the_send_raises(rocketmq_isolated: Isolated) -> None:
    async def refuse(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        raise PermissionError("closed on Sundays")

    topic = rocketmq_isolated.topic()
    async with producer_of(rocketmq_isolated, Each(refuse)) as producer:
        for send in (producer.send, producer.send_oneway, producer.submit, producer.request):
            with pytest.raises(PermissionError, match="Sundays"):
                await send(Message(topic, b"1"))
        with pytest.raises(PermissionError):
            await producer.send_batch([Message(topic, b"1")])
        with pytest.raises(PermissionError):
            await producer.send_all([Message(topic, b"1")])
        await producer.flush()


@pytest.mark.parametrize("results", [None, []])
async def test_middleware_that_forgets_the_results_is_told_so(
    rocketmq_isolated: Isolated, results: Any
) -> None:
    async def forgets(call: SendCall, call_next: SendNext) -> Any:
        await call_next()
        return results

    async with producer_of(rocketmq_isolated, Each(forgets)) as producer:
        with pytest.raises(InvalidResult, match="return what call_next returned"):
            await producer.send(Message(rocketmq_isolated.topic(), b"1"))


async def test_middleware_that_leaves_a_message_out_sends_none(rocketmq_isolated: Isolated) -> None:
    async def drops(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        call.messages = call.messages[:1]
        return await call_next()

    topic = rocketmq_isolated.topic()
    async with producer_of(rocketmq_isolated, Each(drops)) as producer:
        with pytest.raises(InvalidArgument, match="send_batch has 2 messages, not 1"):
            await producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])


async def test_middleware_cannot_send_a_message_to_another_topic(rocketmq_isolated: Isolated) -> None:
    async def elsewhere(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        call.messages = [Message("elsewhere", message.body) for message in call.messages]
        return await call_next()

    topic = rocketmq_isolated.topic()
    async with producer_of(rocketmq_isolated, Each(elsewhere)) as producer:
        for send in (producer.send, producer.submit):
            with pytest.raises(InvalidArgument, match=f"a message for {topic} was sent to elsewhere"):
                await send(Message(topic, b"1"))


async def test_submitted_messages_keep_their_order(rocketmq_isolated: Isolated) -> None:
    async def pauses(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        for _ in range(3 - int(call.messages[0].body) % 3):
            await asyncio.sleep(0)
        return await call_next()

    topic = rocketmq_isolated.topic(queues=1)
    async with producer_of(rocketmq_isolated, Each(pauses)) as producer:
        deliveries = [
            await producer.submit(Message(topic, str(number), sharding_key="k")) for number in range(9)
        ]
        await producer.flush()
        offsets = [delivery.result().queue_offset for delivery in deliveries]
    assert offsets == sorted(offsets)


async def test_flush_tells_what_middleware_made_of_a_submitted_message(
    rocketmq_isolated: Isolated,
) -> None:
    async def fails_afterwards(call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        await call_next()
        raise ConnectionError("the audit log is full")

    topic = rocketmq_isolated.topic()
    async with producer_of(rocketmq_isolated, Each(fails_afterwards)) as producer:
        unseen = await producer.submit(Message(topic, b"1"))
        with pytest.raises(ConnectionError, match="audit log"):
            await producer.flush()
        assert isinstance(unseen.exception(), ConnectionError)
        seen = await producer.submit(Message(topic, b"2"))
        with pytest.raises(ConnectionError):
            await seen
        await producer.flush()


# Handlers.


async def test_handlers_are_wrapped_in_the_order_of_the_list(rocketmq_isolated: Isolated) -> None:
    topic, lines = rocketmq_isolated.topic(), list[str]()

    async def handle(message: ReceivedMessage) -> None:
        lines.append("handler")

    async with (
        producer_of(rocketmq_isolated) as producer,
        consumer_of(rocketmq_isolated, Told("a", lines), Told("b", lines)) as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"1"))
        await until(lambda: len(lines) == 5)
    assert lines == ["a handles 1", "b handles 1", "handler", "b ended", "a ended"]


async def test_a_plain_handler_sees_what_middleware_set_for_it(rocketmq_isolated: Isolated) -> None:
    tenant = contextvars.ContextVar("tenant", default="")
    topic, got = rocketmq_isolated.topic(), list[tuple[str, bytes]]()

    async def unpack(call: HandlerCall, call_next: HandleNext) -> Outcome:
        tenant.set(call.messages[0].properties["tenant"])
        call.messages[0].body = call.messages[0].body.lower()
        return await call_next()

    def handle(message: ReceivedMessage) -> None:
        got.append((tenant.get(), message.body))

    async with (
        producer_of(rocketmq_isolated) as producer,
        consumer_of(rocketmq_isolated, Each(unpack)) as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"ABC", properties={"tenant": "red"}))
        await until(lambda: bool(got))
    assert got == [("red", b"abc")]


async def test_middleware_sees_a_retry_as_a_result_and_other_exceptions_raised(
    rocketmq_isolated: Isolated,
) -> None:
    topic, seen = rocketmq_isolated.topic(), list[str]()

    async def look(call: HandlerCall, call_next: HandleNext) -> Outcome:
        try:
            outcome = await call_next()
        except Exception as error:
            seen.append(f"raised {type(error).__name__}")
        else:
            seen.append(f"returned {type(outcome).__name__}")
        return None  # done in any case

    async def handle(message: ReceivedMessage) -> None:
        match message.body:
            case b"retry":
                raise Retry(1)
            case b"fails":
                raise KeyError("price")
            case b"hangs":
                await asyncio.Event().wait()

    async with (
        producer_of(rocketmq_isolated) as producer,
        consumer_of(rocketmq_isolated, Each(look)) as consumer,
    ):
        consumer.subscribe(topic, "*", handle, timeout_ms=50)
        for number, body in enumerate([b"retry", b"fails", b"hangs", b"fine"]):
            await producer.send(Message(topic, body))
            await until(lambda number=number: len(seen) == number + 1)
    assert seen == [
        "returned Retry",
        "raised KeyError",
        f"raised {HandlerTimeout.__name__}",
        "returned NoneType",
    ]


async def test_an_exception_of_middleware_has_the_message_come_again(rocketmq_isolated: Isolated) -> None:
    topic, attempts, errors = rocketmq_isolated.topic(), list[int](), list[Exception]()

    async def fails_at_first(call: HandlerCall, call_next: HandleNext) -> Outcome:
        if not call.messages[0].reconsume_times:
            raise ConnectionError("no database")
        return await call_next()

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.reconsume_times)

    async with (
        producer_of(rocketmq_isolated) as producer,
        consumer_of(
            rocketmq_isolated, Each(fails_at_first), ordered=True, on_error=errors.append
        ) as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"1"))
        await until(lambda: attempts == [1])
    assert any("no database" in str(error) for error in errors)


async def test_middleware_may_say_which_of_a_batch_come_again(rocketmq_isolated: Isolated) -> None:
    topic, got = rocketmq_isolated.topic(queues=1), list[list[bytes]]()

    async def half(call: HandlerCall, call_next: HandleNext) -> Outcome:
        await call_next()
        return Retry(1, messages=call.messages[1:]) if len(call.messages) > 1 else None

    async def handle(messages: list[ReceivedMessage]) -> None:
        got.append([message.body for message in messages])

    async with (
        producer_of(rocketmq_isolated) as producer,
        consumer_of(rocketmq_isolated, Each(half)) as consumer,
    ):
        consumer.subscribe(topic, "*", handle, max_messages=2, max_wait_ms=3000)
        await producer.send_batch([Message(topic, b"0"), Message(topic, b"1")])
        await until(lambda: len(got) == 2)
    assert got == [[b"0", b"1"], [b"1"]]


async def test_a_list_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="middleware has to be a list, each a Middleware"):
        Producer("p", middleware=[print])  # type: ignore[list-item]
