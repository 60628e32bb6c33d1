"""Store times of the oldest messages that a group has not read, on a real broker."""

from collections.abc import Iterator

import pytest

from orbitmq import Admin, Message, Producer, PullConsumer
from orbitmq.admin.groups import create_group
from orbitmq.admin.progress import group_progress
from orbitmq.admin.reading import unread
from orbitmq.admin.reading.unread import oldest_unread
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import OffsetWrapper
from orbitmq.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


async def test_the_age_is_that_of_the_next_message_and_none_where_all_is_read(broker: LocalBroker) -> None:
    broker.create_topic("ages", 2)
    waiting, done = MessageQueue("ages", "broker-a", 0), MessageQueue("ages", "broker-a", 1)
    async with (
        Admin(broker.namesrv) as admin,
        Producer("p", broker.namesrv) as producer,
        PullConsumer("reads", broker.namesrv) as reader,
    ):
        for _ in range(3):
            await producer.send(Message("ages", b"x"), queue=waiting)
        stored = [message.store_timestamp_ms for message in await reader.pull(waiting, 0)]
        await producer.send(Message("ages", b"x"), queue=done)
        await create_group(admin, broker.broker, SubscriptionGroupConfig("slow"))
        await admin.set_offset("slow", waiting, 1)
        await admin.set_offset("slow", done, 1)
        progress = await group_progress(admin, "slow")
        found = await oldest_unread(admin, progress.queues)
        assert set(found) == {waiting}
        assert found[waiting] == stored[1]
        await admin.set_offset("slow", waiting, 0)
        earlier = (await oldest_unread(admin, (await group_progress(admin, "slow")).queues))[waiting]
        assert earlier == stored[0]


async def test_queues_that_are_gone_are_left_out_and_the_largest_backlogs_read_first(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("many", 2)
    small, large = MessageQueue("many", "broker-a", 0), MessageQueue("many", "broker-a", 1)
    lost, elsewhere = MessageQueue("nothing", "broker-a", 0), MessageQueue("many", "broker-z", 0)
    async with Admin(broker.namesrv) as admin, Producer("p", broker.namesrv) as producer:
        for queue, count in ((small, 1), (large, 3)):
            for _ in range(count):
                await producer.send(Message("many", b"x"), queue=queue)
        queues = {
            small: OffsetWrapper(1, 0, 0, 0), large: OffsetWrapper(3, 0, 0, 0),
            lost: OffsetWrapper(9, 0, 0, 0), elsewhere: OffsetWrapper(9, 0, 0, 0),
        }  # fmt: skip
        assert set(await oldest_unread(admin, queues)) == {small, large}
        monkeypatch.setattr(unread, "MOST_QUEUES", 1)
        assert set(await oldest_unread(admin, {small: queues[small], large: queues[large]})) == {large}
