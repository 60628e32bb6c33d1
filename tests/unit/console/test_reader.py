import pytest

from orbitmq.admin import Admin, NoBroker
from orbitmq.console.reader import Reader, SilentBroker
from orbitmq.console.sampling import look
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo
from orbitmq.protocol.requests.admin import GetBrokerConfig, GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.testing import LocalBroker
from tests.kit.scripted_admin import Scripted

NOBODY = "127.0.0.1:1"


async def test_a_broker_that_is_down_is_left_out_and_the_others_are_told() -> None:
    with LocalBroker() as broker:
        brokers = {
            name: BrokerData("C", name, {0: address})
            for name, address in (("a", broker.broker), ("b", NOBODY))
        }
        names = Scripted(
            {GetBrokerClusterInfo: lambda _: JsonReply[ClusterInfo](body=ClusterInfo(brokers, {}))}
        )
        async with names, Admin(names.address) as admin, Reader(names.address) as reader:
            sample = await look(admin, reader)
            assert {one.at.name: one.state for one in sample.brokers} == {"a": "active", "b": "down"}
            assert reader.silent == {NOBODY}
            assert [one.name for one in await reader.masters()] == ["a"]
            assert any(error.startswith("b does not answer, and is left out") for error in sample.errors)
            with pytest.raises(SilentBroker, match=NOBODY):
                await reader.call(NOBODY, GetBrokerConfig())
            assert (await reader.call(broker.broker, GetBrokerRuntimeInfo())).body.table


async def test_where_all_brokers_are_silent_a_page_says_which() -> None:
    brokers = {"b": BrokerData("C", "b", {0: NOBODY})}
    names = Scripted({GetBrokerClusterInfo: lambda _: JsonReply[ClusterInfo](body=ClusterInfo(brokers, {}))})
    async with names, Reader(names.address) as reader:
        reader.silent = frozenset({NOBODY})
        with pytest.raises(NoBroker, match="none of these brokers answers: b"):
            await reader.masters()
