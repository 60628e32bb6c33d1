"""A look at a cluster every few seconds: sums over its brokers, and what could not be found out."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.clusters import BrokerState
from orbitmq.admin.dead_letters.counting import DeadLetters
from orbitmq.admin.progress import GroupSummary
from orbitmq.console import sampling
from orbitmq.console.reader import Reader
from orbitmq.console.sampling import SERIES, Sample, Sampler, look
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import Answer, Scripted


def broker(broker_id: int = 0, **values: float | None) -> BrokerState:
    return BrokerState(BrokerAt("c", "a", broker_id, f"h:{broker_id}"), "active", **values)  # type: ignore[arg-type]


def test_sums_are_over_all_brokers_and_what_slaves_copy_does_not_come_in_again() -> None:
    brokers = [
        broker(0, in_tps=3.0, out_tps=5.0, unflushed_bytes=10, disk_ratio=0.2),
        broker(1, in_tps=3.0, out_tps=1.0, unflushed_bytes=20, disk_ratio=0.7),
    ]
    groups = [GroupSummary("g", 1, 5, 0, 0.0), GroupSummary("h", 1, 6, 0, 0.0)]
    sample = Sample(1, brokers, groups, [DeadLetters("g", 4, 1)])
    assert sample.values() == {
        "inTps": 3.0,
        "outTps": 6.0,
        "lag": 11.0,
        "deadLetters": 4.0,
        "unflushedBytes": 30.0,
        "diskRatio": 0.7,
    }


def test_what_no_broker_says_is_unknown_and_not_nothing() -> None:
    values = Sample(1, [broker(0)]).values()
    assert (values["inTps"], values["unflushedBytes"], values["diskRatio"]) == (None, None, None)
    assert values["lag"] == 0.0
    assert set(values) == set(SERIES)


def test_sums_that_would_be_too_small_are_unknown() -> None:
    values = Sample(1, [broker(0)], [GroupSummary("g", 1, 5, 0, 0.0)], errors=["a broker is down"]).values()
    assert (values["lag"], values["deadLetters"]) == (None, None)


async def looked(answer: Answer | None) -> Sample:
    """A sample of a cluster of one broker that answers so, or that is down."""
    async with Scripted({} if answer is None else {GetBrokerRuntimeInfo: answer}) as peer:
        address = "127.0.0.1:1" if answer is None else peer.address
        info = ClusterInfo({"a": BrokerData("C", "a", {0: address})}, {"C": ["a"]})
        peer.answers[GetBrokerClusterInfo] = JsonReply[ClusterInfo](body=info)
        async with Admin(peer.address) as admin, Reader(peer.address) as reader:
            return await look(admin, reader)


async def test_a_cluster_whose_brokers_are_all_down_says_why() -> None:
    sample = await looked(None)
    assert [one.state for one in sample.brokers] == ["down"]
    assert "127.0.0.1:1" in sample.errors[0]
    assert sample.groups == []


async def test_a_broker_that_refuses_is_an_error_and_no_empty_cluster() -> None:
    sample = await looked(Refused(16, "not yours"))
    assert [one.state for one in sample.brokers] == ["refusing"]
    assert "not yours" in sample.errors[0]
    assert sample.values()["lag"] is None


async def test_a_name_server_that_is_down_leaves_an_error() -> None:
    async with Admin("127.0.0.1:1") as admin, Reader("127.0.0.1:1") as reader:
        sample = await look(admin, reader)
    assert sample.brokers == []
    assert "127.0.0.1:1" in sample.errors[0]
    assert sample.at_ms > 0


async def test_a_look_that_fails_is_logged_and_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = iter([SystemError("a fault of the program"), Sample(7)])

    async def scripted(admin: Admin, reader: Reader) -> Sample:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(sampling, "look", scripted)
    admin = Admin("127.0.0.1:1")
    sampler = Sampler(admin, Reader("127.0.0.1:1"), 0.01, name="shop")
    running = asyncio.create_task(sampler.run())
    async with asyncio.timeout(60):
        assert (await sampler.first()).at_ms == 7
    assert "a look at shop failed" in caplog.text
    running.cancel()
