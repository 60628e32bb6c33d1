"""A group's progress over all its queues."""

from orbitmq.admin import Admin
from orbitmq.admin.progress import GroupProgress, group_progress, group_summaries, live_progress
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.client import GetConsumerConnectionList
from orbitmq.protocol.requests.group import (
    AllGroupConfigReply,
    GetAllSubscriptiongroupConfig,
    GetConsumeStats,
)
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import alone


async def test_progress_sums_over_queues() -> None:
    table = {
        MessageQueue("t", "a", 1): OffsetWrapper(10, 4, 6, 0),
        MessageQueue("t", "a", 0): OffsetWrapper(5, 5, 5, 0),
    }
    async with (
        alone({GetConsumeStats: JsonReply[ConsumeStats](body=ConsumeStats(table, 1.5))}) as peer,
        Admin(peer.address) as admin,
    ):
        progress = await group_progress(admin, "g")
    assert (progress.lag, progress.in_flight, progress.tps) == (6, 2, 1.5)
    assert [queue.queue_id for queue in progress.queues] == [0, 1]
    assert (GroupProgress().lag, GroupProgress().in_flight) == (0, 0)


async def test_nothing_is_in_flight_in_a_group_without_members() -> None:
    table = {MessageQueue("t", "a", 0): OffsetWrapper(10, 4, 6, 0)}
    answers = {
        GetConsumeStats: JsonReply[ConsumeStats](body=ConsumeStats(table, 1.5)),
        GetConsumerConnectionList: Refused(206, "not online"),
        GetAllSubscriptiongroupConfig: AllGroupConfigReply(
            body=SubscriptionGroupWrapper({"g": SubscriptionGroupConfig("g")})
        ),
    }
    async with alone(answers) as peer, Admin(peer.address) as admin:
        [summary] = await group_summaries(admin)
        detail, _ = await live_progress(admin, "g", None, await admin.masters())
    assert (summary.members, summary.lag, summary.in_flight, summary.tps) == (0, 6, 0, 0.0)
    assert (detail.lag, detail.in_flight, detail.tps) == (6, 0, 0.0)
