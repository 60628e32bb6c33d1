"""The switch of a group's master among scripted brokers: what it asks of them, and where it stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.admin.migration import switching
from orbitmq.admin.migration.journal import MigrationJournal, Phase
from orbitmq.admin.migration.switching import Switch, Timeouts
from orbitmq.admin.replication import old_master
from orbitmq.admin.replication.old_master import Stopped
from orbitmq.admin.replication.survey import ORBITMQ
from orbitmq.net.probing import Reach
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.bodies.auth import (
    AclInfo,
    AclInfoList,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserInfoList,
)
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable, QueueData, TopicRouteData
from orbitmq.protocol.bodies.stats import TopicOffset, TopicStatsTable
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.requests.admin import (
    BrokerConfigReply,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    UpdateBrokerConfig,
)
from orbitmq.protocol.requests.auth import AuthListAcl, AuthListUser
from orbitmq.protocol.requests.offset import GetAllConsumerOffset
from orbitmq.protocol.requests.route import (
    AddedReply,
    AddWritePermOfBroker,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    WipedReply,
    WipeWritePermOfBroker,
)
from orbitmq.protocol.requests.topic import (
    AllTopicConfigReply,
    GetAllTopicConfig,
    GetTopicStatsInfo,
    TopicStatsReply,
)
from orbitmq.protocol.schema.declare import JsonReply, Void
from tests.kit.scripted_admin import Scripted

QUICK = Timeouts(drain=0.0, level=1.0, stop=1.0, serve=1.0)

pytestmark = pytest.mark.timeout(600)


def may_send(user: str, resource: str) -> AclInfo:
    return AclInfo(
        f"User:{user}", [PolicyInfo("Custom", [PolicyEntryInfo(resource, ["Pub"], None, "Allow")])]
    )


class Cluster:
    """A master of Apache's, a slave of ours, and one name server; all scripted."""

    def __init__(self) -> None:
        self.master_options = {
            "brokerRole": "SYNC_MASTER",
            "brokerPermission": "6",
            "mappedFileSizeCommitLog": "1024",
        }
        self.slave_options = {"brokerRole": "SLAVE", "mappedFileSizeCommitLog": "1024"}
        self.ends = {"master": 500, "slave": 500}
        self.begins = {"master": 0, "slave": 0}
        self.first_offset = 0
        """The first queue offset that the slave has."""
        self.users = {"master": ["ann"], "slave": ["ann"]}
        self.rules = {"master": "Topic:T", "slave": "Topic:T"}
        """The resource that every user may send to."""
        self.perm = 6
        self.is_promoted = False
        self.said: list[str] = []

    @property
    def connections(self) -> list[asyncio.StreamWriter]:
        """The connections that the master has taken."""
        return self.master.writers

    def broker(self, name: str, options: dict[str, str]) -> Scripted:
        def figures(_: Any) -> JsonReply[KVTable]:
            table = {"commitLogMaxOffset": str(self.ends[name]), "commitLogMinOffset": str(self.begins[name])}
            return JsonReply[KVTable](
                body=KVTable({**table, **({"unflushedBytes": "0"} if name == "slave" else {})})
            )

        def changed(request: UpdateBrokerConfig) -> Void:
            options.update(parse_properties(bytes(request.body), "the test"))
            self.is_promoted |= name == "slave"
            return Void()

        first = 0 if name == "master" else self.first_offset
        stats = TopicStatsTable({MessageQueue("T", "broker-a", 0): TopicOffset(first, 9, 0)})
        topics = TopicConfigAndMappingSerializeWrapper({"T": TopicConfig("T")})
        offsets = ConsumerOffsetSerializeWrapper({"T@G": {0: 4}})
        return Scripted(
            {
                GetBrokerRuntimeInfo: figures,
                GetBrokerConfig: lambda _: BrokerConfigReply(
                    version="{}", body="".join(f"{key}={value}\n" for key, value in options.items()).encode()
                ),
                GetAllTopicConfig: AllTopicConfigReply(body=topics),
                GetAllConsumerOffset: JsonReply[ConsumerOffsetSerializeWrapper | None](body=offsets),
                GetTopicStatsInfo: TopicStatsReply(body=stats),
                UpdateBrokerConfig: changed,
                AuthListUser: lambda _: JsonReply[UserInfoList | None](
                    body=UserInfoList(
                        [UserInfo(one, "secret", "Normal", "enable") for one in self.users[name]]
                    )
                ),
                AuthListAcl: lambda _: JsonReply[AclInfoList | None](
                    body=AclInfoList([may_send(one, self.rules[name]) for one in self.users[name]])
                ),
            }
        )

    def name_server(self) -> Scripted:
        def cluster(_: Any) -> JsonReply[ClusterInfo]:
            members = (
                {0: self.slave.address}
                if self.is_promoted
                else {0: self.master.address, 1: self.slave.address}
            )
            return JsonReply[ClusterInfo](
                body=ClusterInfo({"broker-a": BrokerData("east", "broker-a", members)})
            )

        def wiped(_: Any) -> WipedReply:
            self.perm = 4
            return WipedReply(wipe_topic_count=1)

        def added(_: Any) -> AddedReply:
            self.perm = 6
            return AddedReply(add_topic_count=1)

        return Scripted(
            {
                GetBrokerClusterInfo: cluster,
                GetRouteinfoByTopic: lambda _: JsonReply[TopicRouteData](
                    body=TopicRouteData(queue_datas=[QueueData("broker-a", 1, 1, self.perm)])
                ),
                WipeWritePermOfBroker: wiped,
                AddWritePermOfBroker: added,
            }
        )

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Admin]:
        self.master = self.broker("master", self.master_options)
        self.slave = self.broker("slave", self.slave_options)
        self.names = self.name_server()
        async with self.master, self.slave, self.names, Admin(self.names.address, timeout_ms=30_000) as admin:
            yield admin

    async def stop_master(self) -> None:
        """Nobody listens at the master's address, and its connections end."""
        await self.master.__aexit__()
        for writer in self.connections:
            writer.close()

    def switch(self, admin: Admin, journal: MigrationJournal, **more: Any) -> Switch:
        return Switch(admin, journal, self.said.append, timeouts=QUICK, **more)


async def test_the_master_is_fenced_and_gone_before_the_slave_is_promoted(tmp_path: Path) -> None:
    cluster, journal = Cluster(), MigrationJournal(tmp_path / "journal.json")
    async with cluster.serve() as admin:

        async def stop() -> None:
            assert cluster.master_options["brokerPermission"] == "4"
            assert not cluster.is_promoted
            await cluster.stop_master()

        record = await cluster.switch(admin, journal, stop_master=stop).run("broker-a", ORBITMQ)
    assert record.phase is Phase.DONE
    assert cluster.slave_options["brokerRole"] == "SYNC_MASTER", "what its master was"
    assert cluster.perm == 6
    assert journal.read("broker-a") == record


async def test_nobody_is_promoted_beside_a_master_that_answers_and_it_can_be_taken_back(
    tmp_path: Path,
) -> None:
    cluster, journal = Cluster(), MigrationJournal(tmp_path / "journal.json")
    async with cluster.serve() as admin:
        switch = cluster.switch(admin, journal)
        with pytest.raises(Stopped, match="still answers"):
            await switch.run("broker-a", ORBITMQ)
        assert not cluster.is_promoted
        await switch.undo("broker-a")
        assert cluster.master_options["brokerPermission"] == "6"
        assert cluster.perm == 6
        assert journal.read("broker-a") is None
        with pytest.raises(Stopped, match="no switch of broker-a has begun"):
            await switch.undo("broker-a")


async def test_a_slave_that_does_not_catch_up_ends_it(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.ends["slave"] = 400
    async with cluster.serve() as admin:
        with pytest.raises(Stopped, match="lacks 100 bytes of the log"):
            await cluster.switch(admin, MigrationJournal(tmp_path / "j")).run("broker-a", ORBITMQ)
    assert not cluster.is_promoted


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        (
            "mappedFileSizeCommitLog",
            "2048",
            "mappedFileSizeCommitLog is 1024 at the master, and 2048 at the slave",
        ),
        ("authenticationEnabled", "true", "authenticationEnabled is false at the master"),
        ("haAuthenticationEnable", "true", "Apache's brokers do not know it"),
    ],
)
async def test_what_does_not_fit_is_refused_before_anything_is_changed(
    tmp_path: Path, option: str, value: str, says: str
) -> None:
    cluster = Cluster()
    cluster.slave_options[option] = value
    async with cluster.serve() as admin:
        with pytest.raises(Stopped, match=says):
            await cluster.switch(admin, MigrationJournal(tmp_path / "j")).run("broker-a", ORBITMQ)
        asked = [type(request) for one in (cluster.names, cluster.master) for request in one.asked]
    assert WipeWritePermOfBroker not in asked
    assert UpdateBrokerConfig not in asked


async def test_the_journal_tells_which_way_a_switch_goes(tmp_path: Path) -> None:
    cluster, journal = Cluster(), MigrationJournal(tmp_path / "j")
    async with cluster.serve() as admin:
        with pytest.raises(Stopped):
            await cluster.switch(admin, journal).run("broker-a", ORBITMQ)
        with pytest.raises(Stopped, match="a switch of broker-a to OrbitMQ has begun"):
            await cluster.switch(admin, journal).run("broker-a", "apache")
        await asyncio.sleep(0)


async def test_a_master_that_is_only_not_reached_is_not_gone_unless_the_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, journal, asked = Cluster(), MigrationJournal(tmp_path / "j"), []

    async def unknown(address: str) -> Reach:
        return Reach.UNKNOWN

    async def answers(question: str) -> bool:
        asked.append(question)
        return len(asked) == 2

    monkeypatch.setattr(old_master, "probe", unknown)
    monkeypatch.setattr(switching, "LOOK_SECONDS", 0.01)
    async with cluster.serve() as admin:
        for confirm in (None, answers):
            with pytest.raises(Stopped, match=r"does not refuse connections either.*--master-stopped"):
                await cluster.switch(admin, journal, stop_master=cluster.stop_master, confirm=confirm).run(
                    "broker-a", ORBITMQ
                )
            assert not cluster.is_promoted
        record = await cluster.switch(admin, journal, confirm=answers).run("broker-a", ORBITMQ)
    assert record.phase is Phase.DONE
    assert len(asked) == 2
