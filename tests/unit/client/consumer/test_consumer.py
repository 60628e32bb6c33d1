"""A consumer and a broker whose answers are written here: what goes over the wire, and when."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.handlers import RETRY, Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET, TIMESTAMP
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from orbitmq.protocol.bodies.running import CMResult
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.client import (
    ConsumeMessageDirectly,
    GetConsumerListByGroup,
    GetConsumerRunningInfo,
    Heartbeat,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from orbitmq.protocol.requests.lock import LockBatchMq, LockBatchReply, UnlockBatchMq
from orbitmq.protocol.requests.offset import (
    GetConsumerStatusFromClient,
    GetMaxOffset,
    OffsetReply,
    QueryConsumerOffset,
    ResetConsumerClientOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from orbitmq.protocol.schema.declare import Reply
from tests.kit.client_messages import record, stored
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


@pytest.mark.parametrize(
    ("options", "stored_offset", "expected"),
    [
        ({"consume_from_where": FIRST_OFFSET}, None, 0),
        ({"consume_from_where": LAST_OFFSET}, None, 3),
        ({"consume_from_where": TIMESTAMP, "consume_timestamp_ms": 5}, None, 1),
        ({"consume_from_where": FIRST_OFFSET}, 2, 2),
        ({"consume_from_where": LAST_OFFSET}, 0, 0),
    ],
)
async def test_where_a_group_begins(
    broker: FakeBroker, options: dict[str, Any], stored_offset: int | None, expected: int
) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1", b"2")
    broker.on(SearchOffsetByTimestamp, lambda request: OffsetReply(1 if request.timestamp == 5 else -9))
    if stored_offset is not None:
        queues.offsets[("T", 0)] = stored_offset
    async with PushConsumer("g", broker.address, **options) as consumer:
        consumer.subscribe("T", "*", Seen())
        await broker.until(lambda: broker.of(PullMessage))
    assert broker.of(PullMessage)[0].queue_offset == expected


async def test_a_queue_whose_offset_cannot_be_asked_for_is_taken_later(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0")
    broker.on(
        QueryConsumerOffset,
        lambda request: (
            Refused(1, "no") if len(broker.of(QueryConsumerOffset)) == 1 else queues.query(request)
        ),
    )
    errors: list[Exception] = []
    options = {"consume_from_where": FIRST_OFFSET, "on_error": errors.append}
    async with PushConsumer("g", broker.address, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(1)
        assert consumer.healthy
    assert [str(error).partition(" (")[0] for error in errors] == ["SYSTEM_ERROR: no"]


async def test_what_fails_is_sent_back_with_its_level(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"raise", b"retry", b"level", b"dead", b"fine", UNIQ_KEY="U")

    async def handle(message: ReceivedMessage) -> Retry | None:
        match message.body:
            case b"raise":
                raise RuntimeError("no")
            case b"retry":
                return RETRY
            case b"level":
                return Retry(4)
            case b"dead":
                return Retry(-1)
        return None

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) == 4)
        await asyncio.sleep(0.05)
    back = {request.offset // 100: request for request in broker.of(ConsumerSendMsgBack)}
    assert {place: request.delay_level for place, request in back.items()} == {0: 0, 1: 0, 2: 4, 3: -1}
    assert {request.max_reconsume_times for request in back.values()} == {16}
    assert {(r.group, r.origin_topic, r.origin_msg_id) for r in back.values()} == {("g", "T", "U")}
    assert queues.offsets[("T", 0)] == 5


async def test_where_sending_back_fails_a_copy_is_sent(broker: FakeBroker) -> None:
    queues = Queues(broker, "T", "%RETRY%g")
    queues.put(b"x", KEYS="k", UNIQ_KEY="U", own="1")
    broker.on(ConsumerSendMsgBack, lambda _: Refused(1, "no"))
    broker.on(SendMessageV2, lambda request: SendReply("0" * 32, 0, 0))

    async def handle(message: ReceivedMessage) -> Retry:
        return RETRY

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(SendMessageV2))
    [copy] = broker.of(SendMessageV2)
    assert (copy.topic, copy.producer_group) == ("%RETRY%g", "CLIENT_INNER_PRODUCER")
    assert (copy.reconsume_times, copy.max_reconsume_times, bytes(copy.body)) == (1, 16, b"x")
    assert decode_properties(copy.properties) == {
        "KEYS": "k",
        "UNIQ_KEY": "U",
        "own": "1",
        "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000000000",
        "RETRY_TOPIC": "T",
        "RECONSUME_TIME": "1",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "3",
    }
    assert queues.offsets[("T", 0)] == 1


async def test_where_that_fails_too_it_is_handled_again_here(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.consuming.AGAIN_SECONDS", 0.05)
    queues = Queues(broker, "T", "%RETRY%g")
    queues.put(b"x", b"y")
    for kind in (ConsumerSendMsgBack, SendMessageV2):
        broker.on(kind, lambda _: Refused(13, "no"))
    seen: list[tuple[bytes, int]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.body, message.reconsume_times))
        return RETRY if seen[-1] == (b"x", 0) else None

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await until(lambda: len(seen) == 3)
    assert seen == [(b"x", 0), (b"y", 0), (b"x", 1)]
    assert queues.offsets[("T", 0)] == 2


async def test_what_was_not_finished_is_not_committed(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1", b"2")
    go = asyncio.Event()
    seen = Seen()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"1":
            await go.wait()
        await seen(message)

    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", handle)
    await consumer.start()
    await seen.count(2)
    await consumer.close(50)
    assert queues.offsets[("T", 0)] == 1


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


async def test_a_broker_that_will_not_say_who_the_members_are_is_told_of(broker: FakeBroker) -> None:
    """It was taken for a group without members: the consumer waited in silence, and called itself healthy."""
    Queues(broker, "T", "%RETRY%g")
    broker.on(GetConsumerListByGroup, lambda _: Refused(16, "not for you"))
    async with PushConsumer("g", broker.address) as consumer:
        consumer.subscribe("T", "*", Seen())
        await until(lambda: consumer.errors)
        assert not consumer.healthy
        assert "not for you" in str(consumer.errors["rebalance of T"])


async def test_a_broker_that_was_taken_away_is_no_trouble_for_ever(
    broker: FakeBroker, other_broker: FakeBroker
) -> None:
    Queues(broker, "%RETRY%g")
    Queues(other_broker)
    broker.topic("T", 1, other_broker)
    options = {"heartbeat_broker_interval_ms": 20, "poll_name_server_interval_ms": 20}
    async with PushConsumer("g", broker.address, **options) as consumer:
        consumer.subscribe("T", "*", Seen())
        await until(lambda: len(consumer.queues) == 2)
        await other_broker.stop()
        await until(lambda: any("heartbeat" in subject for subject in consumer.errors))
        broker.topic("T", 1)
        await until(lambda: consumer.healthy and len(consumer.queues) == 1)


async def test_a_topic_that_is_given_up_is_no_trouble_any_more(broker: FakeBroker) -> None:
    Queues(broker, "%RETRY%g")
    async with PushConsumer("g", broker.address, rebalance_interval_ms=10) as consumer:
        consumer.subscribe("mistaken", "*", Seen())
        await until(lambda: "rebalance of mistaken" in consumer.errors)
        consumer.unsubscribe("mistaken")
        await until(lambda: consumer.healthy)


async def test_queues_are_asked_for_together_where_to_begin(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Queues(broker, "T", queues=8)
    asked: list[MessageQueue] = []
    all_asked = asyncio.Event()

    async def stored(self: OffsetTable, queue: MessageQueue) -> int:
        asked.append(queue)
        if len(asked) == 8:
            all_asked.set()
        await all_asked.wait()
        return 0

    monkeypatch.setattr(OffsetTable, "stored", stored)
    async with asyncio.timeout(60):
        async with PushConsumer("g", broker.address) as consumer:
            consumer.subscribe("T", "*", Seen())
            await until(lambda: len(consumer.queues) == 8)


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


async def test_members_come_and_go(broker: FakeBroker) -> None:
    queues = Queues(broker, "T", queues=4)
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", Seen())
        await until(lambda: len(consumer.queues) == 4)
        broker.members["g"].append("zzz")
        broker.push(NotifyConsumerIdsChanged("g"))
        await until(lambda: [queue.queue_id for queue in consumer.queues] == [0, 1])
        assert set(queues.offsets) >= {("T", 2), ("T", 3)}
        broker.members["g"].remove("zzz")
        broker.push(NotifyConsumerIdsChanged("g"))
        await until(lambda: len(consumer.queues) == 4)
        broker.members["g"].clear()
        broker.push(NotifyConsumerIdsChanged("g"))
        await asyncio.sleep(0.1)
        assert len(consumer.queues) == 4


async def test_an_ordered_consumer_locks_what_it_takes(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T", queues=2), Seen()
    queues.put(b"0", b"1")
    mine: list[MessageQueue] = [MessageQueue("T", "broker-a", 0)]

    def lock(request: LockBatchMq) -> Reply:
        return LockBatchReply(LockBatchResponseBody([q for q in request.body.mq_set if q in mine]))

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


async def test_a_handler_that_takes_too_long_has_its_message_sent_back(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1")

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.3 if message.body == b"0" else 0)

    options = {"consume_timeout_ms": 100}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
        await until(lambda: broker.of(UpdateConsumerOffset) or True)
    [back] = broker.of(ConsumerSendMsgBack)
    assert (back.offset, back.delay_level) == (0, 3)
    assert queues.offsets[("T", 0)] == 2


async def test_offsets_are_told_as_often_as_asked_for(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0")
    options = {"persist_consumer_offset_interval_ms": 20}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await until(lambda: queues.offsets.get(("T", 0)) == 1)


class Asking:
    """Asks a client what brokers ask, and waits for its answer."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def __call__(self, request: Any) -> Any:
        connection = next(c for c in self._broker.connections if not c.is_closed)
        return await connection.call(request, 5000)


async def test_an_operator_may_ask_what_a_consumer_does(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1")
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(2)
        ask = Asking(broker)
        info = (await ask(GetConsumerRunningInfo("g", consumer.client_id, True))).body
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert {row.topic for row in info.subscription_set} == {"T", "%RETRY%g"}
        assert info.mq_table[MessageQueue("T", "broker-a", 0)].cached_msg_count == 0
        assert info.status_table["T"].consume_failed_msgs == 0
        assert "test_an_operator" in info.jstack
        status = (await ask(GetConsumerStatusFromClient("T", "g"))).body
        assert status.message_queue_table == {MessageQueue("T", "broker-a", 0): 2}
        for request in (GetConsumerRunningInfo("other", "id"), ConsumeMessageDirectly("other", "id")):
            with pytest.raises(Exception, match="does not exist in this client"):
                await ask(request)
        with pytest.raises(Exception, match="not supported"):
            await ask(GetMaxOffset("T", 0))


async def test_an_operator_may_hand_over_one_message(broker: FakeBroker) -> None:
    Queues(broker, "T")
    seen: list[tuple[str, bytes]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.topic, message.body))
        if message.body == b"raise":
            raise RuntimeError("handler says no")
        return RETRY if message.body == b"later" else None

    async with PushConsumer("g", broker.address) as consumer:
        consumer.subscribe("T", "*", handle)
        await until(lambda: consumer.queues)
        ask = Asking(broker)
        results = []
        for body in (b"fine", b"later", b"raise"):
            request = ConsumeMessageDirectly("g", consumer.client_id, "id", "broker-a")
            request.body = record(stored(9, body, topic="%RETRY%g", RETRY_TOPIC="T"))
            results.append((await ask(request)).body)
    assert seen == [("T", b"fine"), ("T", b"later"), ("T", b"raise")]
    assert [result.consume_result for result in results] == [
        CMResult.CR_SUCCESS,
        CMResult.CR_LATER,
        CMResult.CR_THROW_EXCEPTION,
    ]
    assert "handler says no" in results[2].remark
    assert not broker.of(ConsumerSendMsgBack)


async def test_an_operator_may_set_offsets(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.request_handler.RESET_WAIT_SECONDS", 0.02)
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(*(b"%d" % n for n in range(5)))
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(5)
        reset = ResetConsumerClientOffset("g", "T", 0, True)
        reset.body = ResetOffsetBody({MessageQueue("T", "broker-a", 0): 3})
        broker.push(reset)
        await seen.count(7)
    assert [message.body for message in seen[5:]] == [b"3", b"4"]


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


async def test_the_first_offset_of_a_topic_goes_alone(broker: FakeBroker) -> None:
    # Apache's broker may forget some of several that come before it has any of the topic.
    queues, seen = Queues(broker, "T", queues=4), Seen()
    for queue_id in range(4):
        queues.put(b"x", queue_id=queue_id)
    broker.hold(UpdateConsumerOffset)
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", seen)
    await consumer.start()
    await seen.count(4)
    closing = asyncio.create_task(consumer.close())
    await broker.until(lambda: broker.of(UpdateConsumerOffset))
    await asyncio.sleep(0.05)
    assert len(broker.of(UpdateConsumerOffset)) == 1
    assert not [pull for pull in broker.of(PullMessage) if pull.sys_flag & 1]
    broker.release(UpdateConsumerOffset)
    await closing
    assert queues.offsets == {("T", queue_id): 1 for queue_id in range(4)}


async def test_pulls_carry_offsets_once_the_broker_has_one_of_the_topic(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1", b"2")
    options = {"pull_batch_size": 1, "persist_consumer_offset_interval_ms": 3_600_000}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await broker.until(lambda: broker.of(UpdateConsumerOffset))
        queues.put(b"3", b"4")
        await broker.until(lambda: [pull for pull in broker.of(PullMessage) if pull.sys_flag & 1])
    riding = [pull.commit_offset for pull in broker.of(PullMessage) if pull.sys_flag & 1]
    assert riding[0] >= broker.of(UpdateConsumerOffset)[0].commit_offset > 0
