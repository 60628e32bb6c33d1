"""Statistics of a broker as rates, on its first day, too."""

import time

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.stats import rows_of, statistic, young_brokers
from orbitmq.protocol.bodies.group import GroupList
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    OffsetWrapper,
)
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo, ViewBrokerStatsData
from orbitmq.protocol.requests.client import GetConsumerConnectionList
from orbitmq.protocol.requests.group import GetConsumeStats
from orbitmq.protocol.requests.topic import QueryTopicConsumeByWho
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import alone


async def test_a_young_broker_knows_its_first_day_by_the_minute() -> None:
    young = BrokerStatsData(BrokerStatsItem(6, 0.1, 1.0), BrokerStatsItem(), BrokerStatsItem())
    async with (
        alone({ViewBrokerStatsData: JsonReply[BrokerStatsData](body=young)}) as peer,
        Admin(peer.address) as admin,
    ):
        brokers = await admin.masters()
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.1, 6)
        peer.answers[ViewBrokerStatsData] = Refused(1, "The stats <TOPIC_PUT_NUMS> <t> not exist")
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.0, 0)
        late = BrokerStatsData(BrokerStatsItem(6, 0.1, 1.0), BrokerStatsItem(50), BrokerStatsItem(10))
        peer.answers[ViewBrokerStatsData] = JsonReply[BrokerStatsData](body=late)
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.1, 50), "the day's sample is old"


@pytest.mark.parametrize(("hours", "says"), [(3, {"a": 3.0}), (30, {})])
async def test_a_group_without_members_takes_nothing_and_a_young_broker_says_so(
    hours: int, says: dict[str, float]
) -> None:
    body = BrokerStatsData(BrokerStatsItem(6, 0.1, 1.0), BrokerStatsItem(50), BrokerStatsItem(10))
    boot = KVTable({"bootTimestamp": str(int(time.time() * 1000) - hours * 3_600_000)})
    offsets = ConsumeStats({MessageQueue("t", "a", 0): OffsetWrapper(9, 4, 6, 0)}, 1.0)
    answers = {
        ViewBrokerStatsData: JsonReply[BrokerStatsData](body=body),
        QueryTopicConsumeByWho: JsonReply[GroupList](body=GroupList(["g"])),
        GetConsumeStats: JsonReply[ConsumeStats](body=offsets),
        GetConsumerConnectionList: Refused(206, "not online"),
        GetBrokerRuntimeInfo: JsonReply[KVTable](body=boot),
    }
    async with alone(answers) as peer, Admin(peer.address) as admin:
        rows = await rows_of(admin, await admin.masters(), "t", False)
        young = await young_brokers(admin)
    assert rows == [("t", "g", 5, 0.1, 0.0, 50, 50)]
    assert {name: round(hours, 1) for name, hours in young.items()} == says
