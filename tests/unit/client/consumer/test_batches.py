"""Handlers that get several messages at a time, and say which of them are to come again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import InvalidArgument, InvalidResult
from orbitmq.client.core.handlers import Reply, Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.client import NotifyConsumerIdsChanged
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker

KINDS = pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])


class Lists:
    """A handler of batches that keeps what it got; its results are given, and None at last."""

    def __init__(self, *results: Any) -> None:
        self.got: list[list[bytes]] = []
        self._results = list(results)

    async def __call__(self, messages: list[ReceivedMessage]) -> Any:
        self.got.append([message.body for message in messages])
        result = self._results.pop(0) if self._results else None
        if isinstance(result, Exception):
            raise result
        return result(messages) if callable(result) else result


def consumer_of(broker: FakeBroker, **options: Any) -> PushConsumer:
    return PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        suspend_current_queue_time_ms=10,
        persist_consumer_offset_interval_ms=10,
        **options,
    )


async def pulled(broker: FakeBroker) -> None:
    """Waits until the consumer has the answer to its first pull: it asks for more."""
    await broker.until(lambda: len([one for one in broker.of(PullMessage) if one.topic == "T"]) >= 2)


def queues_of(broker: FakeBroker, *bodies: bytes) -> Queues:
    queues = Queues(broker, "T")
    queues.lock_all()
    queues.put(*bodies)
    return queues


@KINDS
async def test_a_list_holds_so_many_at_most(broker: FakeBroker, ordered: bool) -> None:
    queues = queues_of(broker, b"0", b"1", b"2", b"3", b"4")
    lists = Lists()
    async with consumer_of(broker, ordered=ordered, concurrency=1) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=2)
        await until(lambda: queues.offsets.get(("T", 0)) == 5)
    assert lists.got == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


@KINDS
async def test_a_list_waits_for_more_until_it_is_full(broker: FakeBroker, ordered: bool) -> None:
    queues = queues_of(broker, b"0")
    lists = Lists()
    async with consumer_of(broker, ordered=ordered, pull_batch_size=1) as consumer:
        queues.put(b"1", b"2")
        consumer.subscribe("T", "*", lists, max_messages=3, max_wait_ms=60_000)
        await until(lambda: queues.offsets.get(("T", 0)) == 3)
    assert lists.got == [[b"0", b"1", b"2"]], "three pulls"


@KINDS
async def test_a_list_that_does_not_fill_goes_after_its_time(broker: FakeBroker, ordered: bool) -> None:
    queues_of(broker, b"0", b"1")
    lists = Lists()
    async with consumer_of(broker, ordered=ordered) as consumer:  # one pull: no second one takes up the time
        consumer.subscribe("T", "*", lists, max_messages=3, max_wait_ms=300)
        await until(lambda: lists.got)
    assert lists.got == [[b"0", b"1"]]


async def test_those_that_are_named_go_back_and_the_others_are_done(broker: FakeBroker) -> None:
    queues = queues_of(broker, b"0", b"1", b"2")
    lists = Lists(lambda messages: Retry(5, messages=messages[1:2]))
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=3)
        await until(lambda: queues.offsets.get(("T", 0)) == 3)
    sent_back = broker.of(ConsumerSendMsgBack)
    assert len(sent_back) == 1
    assert sent_back[0].delay_level == 5
    assert sent_back[0].origin_msg_id is not None
    assert len(lists.got) == 1


async def test_those_that_are_named_are_repeated_at_the_head_of_their_queue(broker: FakeBroker) -> None:
    queues = queues_of(broker, b"0", b"1", b"2", b"3")
    lists = Lists(lambda messages: Retry(messages=messages[1:2]), RuntimeError("all of them"))
    async with consumer_of(broker, ordered=True) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=3)
        await until(lambda: queues.offsets.get(("T", 0)) == 4)
    assert lists.got == [[b"0", b"1", b"2"], [b"1", b"3"], [b"1", b"3"]]


async def test_one_of_a_list_that_came_too_often_is_given_up(broker: FakeBroker) -> None:
    queues = queues_of(broker, b"0", b"1")
    lists = Lists(*[lambda messages: Retry(messages=messages[:1])] * 2)
    broker.topic("%RETRY%g", 1)
    broker.on(SendMessageV2, lambda _: SendReply("id", 0, 0))
    async with consumer_of(broker, ordered=True, max_reconsume_times=1) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=2)
        await until(lambda: queues.offsets.get(("T", 0)) == 2)
    assert lists.got == [[b"0", b"1"], [b"0"]]
    assert [request.body for request in broker.of(SendMessageV2)] == [b"0"]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (RuntimeError("full"), RuntimeError),
        (lambda _: Reply(b"to whom?"), InvalidResult),
        (lambda _: Retry(messages=[STRANGER]), InvalidResult),
        (lambda _: False, InvalidResult),
    ],
    ids=["raised", "reply", "stranger", "false"],
)
async def test_all_go_back_where_nothing_is_said_of_them(
    broker: FakeBroker, result: Any, error: type[Exception]
) -> None:
    queues = queues_of(broker, b"0", b"1")
    errors = list[Exception]()
    async with consumer_of(broker, on_error=errors.append) as consumer:
        consumer.subscribe("T", "*", Lists(result), max_messages=2)
        await until(lambda: queues.offsets.get(("T", 0)) == 2)
    assert len(broker.of(ConsumerSendMsgBack)) == 2
    assert [type(one) for one in errors] == [error], "told once"


STRANGER = object.__new__(ReceivedMessage)


async def test_what_waits_for_a_full_list_is_not_done_when_the_consumer_closes(broker: FakeBroker) -> None:
    queues = queues_of(broker, b"0")
    lists = Lists()
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=2, max_wait_ms=60_000)
        await pulled(broker)
    assert lists.got == []
    assert queues.offsets.get(("T", 0)) in (None, 0)


async def test_what_waits_for_a_full_list_is_left_out_where_its_queue_goes(broker: FakeBroker) -> None:
    queues = queues_of(broker, b"0")
    lists = Lists()
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", "*", lists, max_messages=3, max_wait_ms=60_000)
        await pulled(broker)
        queue = consumer.queues[0]
        await consumer.seek({queue: 0})
        queues.put(b"1", b"2")
        broker.push(NotifyConsumerIdsChanged("g"))
        await until(lambda: queues.offsets.get(("T", 0)) == 3)
    assert sorted(body for bodies in lists.got for body in bodies) == [b"0", b"1", b"2"], "once each"


async def test_a_plain_function_gets_lists_in_a_thread(broker: FakeBroker) -> None:
    queues_of(broker, b"0", b"1")
    got, there = list[int](), asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(messages: list[ReceivedMessage]) -> None:
        got.append(len(messages))
        loop.call_soon_threadsafe(there.set)

    async with consumer_of(broker) as consumer:
        consumer.on("T", max_messages=10)(handle)
        async with asyncio.timeout(120):
            await there.wait()
    assert got == [2]


def test_what_a_batch_can_be() -> None:
    consumer = PushConsumer("g")
    for options, text in [
        ({"max_wait_ms": 5}, "goes with max_messages"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 1.5}, "an int"),
        ({"max_messages": 1001}, "max_messages"),
        ({"max_messages": 2, "max_wait_ms": -1}, "max_wait_ms"),
    ]:
        with pytest.raises(InvalidArgument, match=text):
            consumer.subscribe("T", "*", print, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="for handlers"):
        consumer.subscribe("T", max_messages=2)
    with pytest.raises(InvalidArgument, match="messages of the batch"):
        Retry(messages=["0"])  # type: ignore[list-item]
