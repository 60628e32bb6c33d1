"""Statistics of a broker as rates, on its first day, too."""

from orbitmq.admin import Admin
from orbitmq.admin.commands.stats import statistic
from orbitmq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import (
    BrokerStatsReply,
    ViewBrokerStatsData,
)
from tests.kit.scripted_admin import alone


async def test_a_young_broker_knows_its_first_day_by_the_minute() -> None:
    young = BrokerStatsData(BrokerStatsItem(6, 0.1, 1.0), BrokerStatsItem(), BrokerStatsItem())
    async with (
        alone({ViewBrokerStatsData: BrokerStatsReply(body=young)}) as peer,
        Admin(peer.address) as admin,
    ):
        brokers = await admin.masters()
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.1, 6)
        peer.answers[ViewBrokerStatsData] = Refused(1, "The stats <TOPIC_PUT_NUMS> <t> not exist")
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.0, 0)
