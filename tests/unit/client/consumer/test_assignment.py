"""Queues of a member: where a group begins in them, and how they move as members and brokers come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET, TIMESTAMP
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.client import (
    GetConsumerListByGroup,
    NotifyConsumerIdsChanged,
)
from orbitmq.protocol.requests.offset import (
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import PullMessage
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


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


async def test_a_seek_that_is_given_up_leaves_its_topic_to_be_read(broker: FakeBroker) -> None:
    """The topic stayed suspended: its queues were this member's no more, and never taken again."""
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0")
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(1)
        broker.hold(UpdateConsumerOffset)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await consumer.seek({consumer.queues[0]: 0})
        broker.release(UpdateConsumerOffset)
        queues.put(b"1")
        await until(lambda: b"1" in [message.body for message in seen], seconds=20)


async def test_seeks_in_queues_of_one_topic_do_not_disturb_each_other(broker: FakeBroker) -> None:
    """The first one that was done had the other's queue taken at its old offset."""
    queues, seen = Queues(broker, "T", queues=2), Seen()
    queues.put(b"0")
    queues.put(b"1", queue_id=1)
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(2)
        await consumer._assignment.commit(confirmed=True)  # type: ignore[union-attr]
        slow, quick = consumer.queues
        broker.hold(
            UpdateConsumerOffset, lambda request: request.queue_id == 0 and request.commit_offset == 0
        )
        held = asyncio.create_task(consumer.seek({slow: 0}))
        await broker.until(lambda: broker._held[UpdateConsumerOffset])
        await consumer.seek({quick: 0})
        await asyncio.sleep(0.2)
        broker.release(UpdateConsumerOffset)
        await held
        async with asyncio.timeout(20):
            await seen.count(4)
    assert sorted(message.body for message in seen) == [b"0", b"0", b"1", b"1"]
