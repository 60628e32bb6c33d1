import pytest

from orbitmq.admin import Admin, NoBroker
from orbitmq.admin.admin import NotANameServer
from orbitmq.net.errors import BadAddress, NoNameServer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from orbitmq.protocol.errors import PeerFailed, Refused, TopicNotExist
from orbitmq.protocol.requests.route import GetBrokerClusterInfo, GetRouteinfoByTopic, PutKvConfig
from orbitmq.protocol.schema.declare import JsonReply, Void
from tests.kit.scripted_admin import Scripted

NOBODY = "127.0.0.1:1"


def cluster_info() -> JsonReply[ClusterInfo]:
    return JsonReply[ClusterInfo](
        body=ClusterInfo(
            {
                "b": BrokerData("C2", "b", {0: "10.0.0.3:10911"}),
                "a": BrokerData("C1", "a", {1: "10.0.0.2:10911", 0: "10.0.0.1:10911"}),
            },
            {"C1": ["a"], "C2": ["b"]},
        )
    )


async def test_the_first_name_server_that_can_be_reached_is_asked() -> None:
    async with (
        Scripted({GetBrokerClusterInfo: cluster_info()}) as peer,
        Admin(f"{NOBODY};{peer.address}") as admin,
    ):
        assert set((await admin.clusters()).cluster_addr_table or {}) == {"C1", "C2"}


async def test_a_refusal_is_an_answer_and_no_other_is_asked() -> None:
    async with (
        Scripted({GetRouteinfoByTopic: Refused(17, "no route")}) as first,
        Scripted({}) as second,
        Admin(f"{first.address};{second.address}") as admin,
    ):
        with pytest.raises(TopicNotExist, match="no route"):
            await admin.route("t")
        assert second.asked == []


async def test_no_name_server_at_all() -> None:
    async with Admin(f"{NOBODY};127.0.0.1:2", timeout_ms=500) as admin:
        with pytest.raises(NoNameServer, match=r"127.0.0.1:1.*127.0.0.1:2"):
            await admin.clusters()
    with pytest.raises(BadAddress):
        Admin("nonsense")


async def test_a_broker_in_the_place_of_a_name_server_is_called_one() -> None:
    async with (
        Scripted({GetBrokerClusterInfo: Refused(3, "request type 106 not supported")}) as peer,
        Admin(peer.address) as admin,
    ):
        with pytest.raises(NotANameServer, match=f"{peer.address} answers, .* not of a broker"):
            await admin.brokers()


async def test_all_name_servers_are_told_and_a_failure_is_told_back() -> None:
    async with (
        Scripted({PutKvConfig: Void()}) as first,
        Scripted({PutKvConfig: Refused(1, "disk")}) as second,
        Scripted({PutKvConfig: Void()}) as third,
        Admin(f"{first.address};{second.address};{third.address}") as admin,
    ):
        with pytest.raises(PeerFailed, match="disk"):
            await admin.ask_all(PutKvConfig("n", "k", "v"))
        assert [len(peer.asked) for peer in (first, second, third)] == [1, 1, 1]


async def test_brokers_by_cluster_name_and_address() -> None:
    async with Scripted({GetBrokerClusterInfo: cluster_info()}) as peer, Admin(peer.address) as admin:
        assert [one.address for one in await admin.brokers()] == [
            "10.0.0.1:10911",
            "10.0.0.2:10911",
            "10.0.0.3:10911",
        ]
        assert [one.name for one in await admin.masters()] == ["a", "b"]
        assert [one.name for one in await admin.masters(cluster="C2")] == ["b"]
        assert [one.broker_id for one in await admin.brokers(broker="a")] == [0, 1]
        assert [one.name for one in await admin.brokers(broker="10.0.0.3:10911")] == ["b"]
        with pytest.raises(
            NoBroker, match=f"no broker named x in cluster C1 is registered with {peer.address}"
        ):
            await admin.brokers("C1", "x")
        with pytest.raises(NoBroker, match="only slaves"):
            await admin.masters(broker="10.0.0.2:10911")


async def test_the_member_with_the_lowest_id_stands_for_its_group() -> None:
    route = TopicRouteData(
        queue_datas=[QueueData("a", 4, 4, 6)],
        broker_datas=[BrokerData("C1", "a", {2: "s:1", 1: "r:1"}), BrokerData("C1", "gone", {})],
    )
    async with (
        Scripted({GetRouteinfoByTopic: JsonReply[TopicRouteData](body=route)}) as peer,
        Admin(peer.address) as admin,
    ):
        [one] = await admin.brokers_of("t")
        assert (one.name, one.broker_id, one.address) == ("a", 1, "r:1")


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [MessageQueue("t", "b", 0), MessageQueue("t", "a", 10), MessageQueue("t", "a", 2)]
    assert [queue.queue_id for queue in sorted(queues)] == [2, 10, 0]
