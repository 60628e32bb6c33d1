"""A group's progress over all its queues."""

from orbitmq.admin import Admin
from orbitmq.admin.commands.group_progress import Progress, group_progress
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.protocol.requests.group import ConsumeStatsReply, GetConsumeStats
from tests.kit.scripted_admin import alone


async def test_progress_sums_over_queues() -> None:
    table = {
        MessageQueue("t", "a", 1): OffsetWrapper(10, 4, 6, 0),
        MessageQueue("t", "a", 0): OffsetWrapper(5, 5, 5, 0),
    }
    async with (
        alone({GetConsumeStats: ConsumeStatsReply(body=ConsumeStats(table, 1.5))}) as peer,
        Admin(peer.address) as admin,
    ):
        progress = await group_progress(admin, "g")
    assert (progress.lag, progress.in_flight, progress.tps) == (6, 2, 1.5)
    assert [queue.queue_id for queue in progress.queues] == [0, 1]
    assert (Progress().lag, Progress().in_flight) == (0, 0)
