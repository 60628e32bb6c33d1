"""Brokers that answer, that refuse and that do not answer, side by side."""

from orbitmq.admin import Admin
from orbitmq.admin.clusters import first_rate
from orbitmq.cli.admin.cluster_list import show as show_cluster
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import alone


async def test_a_broker_that_does_not_answer_is_down_and_one_that_may_not_is_refusing() -> None:
    info = {
        "brokerActive": "true",
        "brokerVersionDesc": "V5_4_0",
        "putTps": "1.5 2.0 3.0 ",
        "msgPutTotalTodayNow": "9",
    }
    async with alone({GetBrokerRuntimeInfo: JsonReply[KVTable](body=KVTable(info))}) as peer:
        gone = BrokerData("C", "gone", {0: "127.0.0.1:1"})
        here = BrokerData("C", "a", {0: peer.address})
        peer.answers[GetBrokerClusterInfo] = JsonReply[ClusterInfo](
            body=ClusterInfo({"a": here, "gone": gone}, {"C": ["a", "gone"]})
        )
        async with Admin(peer.address) as admin:
            rows = (await show_cluster.callback.__wrapped__.__wrapped__(admin, None, None)).as_json()  # type: ignore[union-attr]
            peer.answers[GetBrokerRuntimeInfo] = Refused(ResponseCode.NO_PERMISSION, "not for ann")
            told = await show_cluster.callback.__wrapped__.__wrapped__(admin, None, None)  # type: ignore[union-attr]
    assert [row["state"] for row in told.as_json()] == ["refusing", "down"]
    assert "a: NO_PERMISSION: not for ann" in told.note
    assert [(row["state"], row["inTps"], row["inToday"]) for row in rows] == [
        ("active", 1.5, 9),
        ("down", None, None),
    ]
    assert first_rate("") == first_rate("x y") == 0.0
