"""A consumer and a broker whose answers are written here: what goes over the wire, and when."""

from __future__ import annotations

import asyncio
import json

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.client import (
    GetConsumerListByGroup,
    Heartbeat,
    UnregisterClient,
)
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import JsonReply, Reply
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


async def test_what_a_broker_hears_of_a_consumer(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1", TAGS="a")
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "a || b", seen)
        await seen.count(2)
        client_id = consumer.client_id
    body = json.loads(broker.of(Heartbeat)[-1].body.to_json())
    assert body["clientID"] == client_id
    assert body["producerDataSet"] == [{"groupName": "CLIENT_INNER_PRODUCER"}]
    [group] = body["consumerDataSet"]
    assert (group["groupName"], group["consumeType"], group["messageModel"]) == (
        "g",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
    )
    assert group["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
    rows = {row["topic"]: row for row in group["subscriptionDataSet"]}
    assert set(rows) == {"T", "%RETRY%g"}
    assert sorted(rows["T"]["codeSet"]) == [97, 98]
    pull = broker.of(PullMessage)[0]
    assert (pull.sys_flag, pull.max_msg_nums, pull.suspend_timeout_millis) == (2, 32, 15_000)
    assert (pull.max_msg_bytes, pull.expression_type, pull.broker_name) == (262_144, "TAG", "broker-a")
    assert pull.sub_version == rows["T"]["subVersion"]
    assert queues.offsets[("T", 0)] == 2
    leaving = broker.of(UnregisterClient)
    assert {(row.producer_group, row.consumer_group) for row in leaving} == {
        ("CLIENT_INNER_PRODUCER", None),
        (None, "g"),
    }


async def test_pulling_stops_while_too_much_is_held(broker: FakeBroker) -> None:
    queues, go, seen = Queues(broker, "T"), asyncio.Event(), Seen()
    queues.put(*(b"%d" % n for n in range(500)))

    async def handle(message: ReceivedMessage) -> None:
        await go.wait()
        await seen(message)

    options = {"pull_threshold_for_queue": 100, "concurrency": 1}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: len(broker.of(PullMessage)) >= 4)
        await asyncio.sleep(0.1)
        assert max(request.queue_offset for request in broker.of(PullMessage)) <= 128
        go.set()
        await seen.count(500)
    assert [message.queue_offset for message in seen] == list(range(500))


async def test_a_pause_keeps_the_queues_and_pulls_nothing(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T", "%RETRY%g"), Seen()
    queues.put(b"0")
    options = {"rebalance_interval_ms": 10}
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options)
    consumer.subscribe("T", "*", seen)
    consumer.pause()
    async with consumer:
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) > asked + 4)
        assert not broker.of(PullMessage)
        assert (consumer.is_paused, consumer.healthy, len(consumer.queues)) == (True, True, 1)
        consumer.resume()
        await seen.count(1)
    assert not consumer.is_paused


async def test_an_offset_outside_the_queue_is_put_right(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(*(b"%d" % n for n in range(10)))
    queues.first[("T", 0)] = 7
    queues.offsets[("T", 0)] = 3
    async with PushConsumer("g", broker.address) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(3)
    assert [message.body for message in seen] == [b"7", b"8", b"9"]
    assert queues.offsets[("T", 0)] == 10


async def test_a_broker_that_forgot_the_group_is_told_again(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0")
    broker.on(
        PullMessage,
        lambda request: (
            Refused(24, "the consumer's subscription not exist")
            if len(broker.of(PullMessage)) <= 1
            else queues.pull(request)
        ),
    )
    options = {"pull_time_delay_when_exception_ms": 20}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(1)
        assert len(broker.of(Heartbeat)) >= 2


async def test_a_topic_that_is_given_up_is_no_trouble_any_more(broker: FakeBroker) -> None:
    Queues(broker, "%RETRY%g")
    async with PushConsumer("g", broker.address, rebalance_interval_ms=10) as consumer:
        consumer.subscribe("mistaken", "*", Seen())
        await until(lambda: "rebalance of mistaken" in consumer.errors)
        consumer.unsubscribe("mistaken")
        await until(lambda: consumer.healthy)


async def test_a_consumer_that_is_closed_while_it_starts_does_not_start(broker: FakeBroker) -> None:
    broker.topic("T")
    consumer = PushConsumer("g", broker.address)
    consumer.subscribe("T", "*", Seen())
    closing: list[asyncio.Task[None]] = []

    def close_first(request: GetRouteinfoByTopic) -> Reply | Refused:
        closing.append(asyncio.create_task(consumer.close()))
        return broker.route(request)

    broker.on(GetRouteinfoByTopic, close_first)
    with pytest.raises(NotRunning):
        await consumer.start()
    await asyncio.gather(*closing)
    assert not broker.of(Heartbeat)


async def test_an_ordered_consumer_locks_what_it_takes(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T", queues=2), Seen()
    queues.put(b"0", b"1")
    mine: list[MessageQueue] = [MessageQueue("T", "broker-a", 0)]

    def lock(request: LockBatchMq) -> Reply:
        return JsonReply[LockBatchResponseBody](
            LockBatchResponseBody([q for q in request.body.mq_set if q in mine])
        )

    broker.on(LockBatchMq, lock)
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, ordered=True) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(2)
        assert consumer.queues == mine
        mine.append(MessageQueue("T", "broker-a", 1))
        await until(lambda: len(consumer.queues) == 2)
        asked = broker.of(LockBatchMq)[0].body
        assert (asked.consumer_group, asked.client_id) == ("g", consumer.client_id)
    assert {q for request in broker.of(UnlockBatchMq) for q in request.body.mq_set} == set(mine)
    assert queues.offsets[("T", 0)] == 2


async def test_on_error_is_told_once_of_what_goes_on(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    broker.on(PullMessage, lambda _: Refused(1, "broken"))
    errors: list[Exception] = []
    options = {"pull_time_delay_when_exception_ms": 5}
    async with PushConsumer("g", broker.address, on_error=errors.append, **options) as consumer:
        consumer.subscribe("T", "*", Seen())
        await broker.until(lambda: len(broker.of(PullMessage)) > 10)
        assert not consumer.healthy
        assert any("broken" in str(error) for error in consumer.errors.values())
        broker.on(PullMessage, queues.pull)
        await until(lambda: consumer.healthy)
    assert len([error for error in errors if "broken" in str(error)]) == 1
