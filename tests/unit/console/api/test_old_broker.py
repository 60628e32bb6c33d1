"""A broker of 4.9, which knows few of the requests: pages say what is missing, and show the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest

from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable, QueueData, TopicRouteData
from orbitmq.protocol.bodies.stats import TopicStatsTable
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.requests.admin import BrokerConfigReply, GetBrokerConfig, GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import (
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    GetSystemTopicListFromNs,
)
from orbitmq.protocol.requests.topic import GetTopicStatsInfo, TopicStatsReply
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.running_console import RunningConsole
from tests.kit.scripted_admin import Scripted

CLUSTER = "/api/clusters/old"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[httpx.Client]:
    peer = Scripted({})

    def brokers() -> dict[str, BrokerData]:
        return {"a": BrokerData("C", "a", {0: peer.address})}

    peer.answers = {
        GetBrokerClusterInfo: lambda _: JsonReply[ClusterInfo](body=ClusterInfo(brokers(), {"C": ["a"]})),
        GetRouteinfoByTopic: lambda _: JsonReply[TopicRouteData](
            body=TopicRouteData(queue_datas=[QueueData("a", 1, 1, 6)], broker_datas=list(brokers().values()))
        ),
        GetSystemTopicListFromNs: JsonReply[TopicList](body=TopicList([])),
        GetBrokerRuntimeInfo: JsonReply[KVTable](
            body=KVTable({"brokerVersionDesc": "V4_9_4", "brokerActive": "true", "putTps": "0 0 0"})
        ),
        GetBrokerConfig: BrokerConfigReply(version="{}", body=b"brokerName=a\nmessageDelayLevel=1s 5s\n"),
        GetTopicStatsInfo: TopicStatsReply(body=TopicStatsTable({})),
    }
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(peer.__aenter__(), loop).result(120)
    with RunningConsole(tmp_path, old=peer.address) as running:
        yield running.client()
    asyncio.run_coroutine_threadsafe(peer.__aexit__(), loop).result(120)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(120)
    loop.close()


def test_pages_of_an_old_broker_show_what_it_has_and_say_what_it_has_not(old: httpx.Client) -> None:
    [broker] = old.get(f"{CLUSTER}/overview").json()["brokers"]
    assert (broker["version"], broker["state"], broker["unflushedBytes"]) == ("V4_9_4", "active", None)
    delays = old.get(f"{CLUSTER}/delays").json()
    assert (delays["withoutTimers"], delays["errors"]) == (["a"], [])
    access = old.get(f"{CLUSTER}/access").json()
    assert "not supported" in access["brokers"][0]["error"]
    [explained] = old.get(f"{CLUSTER}/access/explain?user=x&resource=Topic:t&action=Pub").json()["brokers"]
    assert explained["cause"] == "OPEN"
    config = {one["name"]: one["values"] for one in old.get(f"{CLUSTER}/config").json()["options"]}
    assert config["messageDelayLevel"] == ["1s 5s"]
    recall = {"broker": "a", "topic": "t", "dueMs": 1, "uniqueId": "x"}
    answer = old.post(f"{CLUSTER}/timers/recall", json=recall)
    assert (answer.status_code, answer.json()["code"]) == (501, "NOT_SUPPORTED")
    assert "of a version that does not have this" in answer.json()["advice"]
