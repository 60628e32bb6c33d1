"""The promotion of a slave among scripted brokers: what is asked of them, and what is refused."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.admin.replication import old_master, promoting
from orbitmq.admin.replication.old_master import OldMaster, Stopped
from orbitmq.admin.replication.promoting import Promotion, PromotionRequest, promote
from orbitmq.net.probing import Reach
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.bodies.ha import HAClientRuntimeInfo, HARuntimeInfo
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.requests.admin import (
    BrokerConfigReply,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    UpdateBrokerConfig,
)
from orbitmq.protocol.requests.ha import GetBrokerHaStatus
from orbitmq.protocol.requests.offset import GetAllConsumerOffset
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.requests.topic import AllTopicConfigReply, GetAllTopicConfig
from orbitmq.protocol.schema.declare import JsonReply, Void
from tests.kit.scripted_admin import Scripted


class Group:
    """A master and two slaves, of which the second lacks a little; and a name server."""

    def __init__(self) -> None:
        self.options = [{"brokerRole": "SYNC_MASTER"}, {"brokerRole": "SLAVE"}, {"brokerRole": "SLAVE"}]
        self.ends = [500, 500, 400]
        self.is_ours = [True, True, True]
        self.listed = {0, 1, 2}
        """The members that the name server knows."""
        self.ha_address = ""
        self.said: list[str] = []

    def _broker(self, number: int) -> Scripted:
        options = self.options[number]

        def figures(_: Any) -> JsonReply[KVTable]:
            own = {"unflushedBytes": "0"} if self.is_ours[number] else {}
            return JsonReply[KVTable](body=KVTable({"commitLogMaxOffset": str(self.ends[number]), **own}))

        def status(_: Any) -> JsonReply[HARuntimeInfo]:
            own = HAClientRuntimeInfo(self.ha_address, 0, self.ends[number], master_flush_offset=520)
            is_master = options["brokerRole"] != "SLAVE"
            return JsonReply[HARuntimeInfo](
                body=HARuntimeInfo(is_master, self.ends[number], ha_client_runtime_info=own)
            )

        def changed(request: UpdateBrokerConfig) -> Void:
            options.update(parse_properties(bytes(request.body), "the test"))
            return Void()

        topics = TopicConfigAndMappingSerializeWrapper({"T": TopicConfig("T")})
        return Scripted(
            {
                GetBrokerRuntimeInfo: figures,
                GetBrokerHaStatus: status,
                GetBrokerConfig: lambda _: BrokerConfigReply(
                    version="{}", body="".join(f"{key}={value}\n" for key, value in options.items()).encode()
                ),
                GetAllTopicConfig: AllTopicConfigReply(body=topics),
                GetAllConsumerOffset: JsonReply[ConsumerOffsetSerializeWrapper | None](
                    body=ConsumerOffsetSerializeWrapper({})
                ),
                UpdateBrokerConfig: changed,
            }
        )

    def _clusters(self, _: Any) -> JsonReply[ClusterInfo]:
        masters = [number for number in sorted(self.listed) if self.options[number]["brokerRole"] != "SLAVE"]
        ids = {number: 0 if number in masters[-1:] else number or 9 for number in self.listed}
        members = {ids[number]: self.brokers[number].address for number in self.listed}
        return JsonReply[ClusterInfo](body=ClusterInfo({"g": BrokerData("c", "g", members)}))

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Admin]:
        self.brokers = [self._broker(number) for number in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            for broker in self.brokers:
                await stack.enter_async_context(broker)
            names = await stack.enter_async_context(Scripted({GetBrokerClusterInfo: self._clusters}))
            yield await stack.enter_async_context(Admin(names.address, timeout_ms=30_000))

    async def stop_master(self) -> None:
        await self.brokers[0].__aexit__()
        for writer in self.brokers[0].writers:
            writer.close()

    async def promote(self, admin: Admin, broker: str = "g", **more: Any) -> Promotion:
        confirm = more.pop("confirm", None)
        request = PromotionRequest(broker, wait_seconds=more.pop("wait_seconds", 5.0), **more)
        return await promote(admin, request, OldMaster(admin, confirm), self.said.append)

    @property
    def roles(self) -> list[str]:
        return [options["brokerRole"] for options in self.options]


AS_BEFORE = ["SYNC_MASTER", "SLAVE", "SLAVE"]


async def test_the_slave_with_most_takes_the_place_of_a_master_that_is_gone() -> None:
    group = Group()
    async with group.serve() as admin:
        gone = group.brokers[0].address
        await group.stop_master()
        made = await group.promote(admin, role="SYNC_MASTER")
        assert made == Promotion("g", group.brokers[1].address, "SYNC_MASTER", (gone,), lacked_bytes=20)
        assert group.options[1]["brokerRole"] == "SYNC_MASTER"
        again = await group.promote(admin, made.master)
        assert (again.master, again.before) == (made.master, ())
    assert any("lacks 20 bytes" in line for line in group.said)


async def test_nobody_is_promoted_beside_a_master_that_lives_unless_that_is_made_a_slave_first() -> None:
    group = Group()
    async with group.serve() as admin:
        with pytest.raises(Stopped, match="is alive, and the master of g: stop it, or give --fence"):
            await group.promote(admin)
        assert group.roles == AS_BEFORE
        made = await group.promote(admin, fence=True)
        assert made.role == "SYNC_MASTER", "what its master was"
        assert group.options[0] == {"brokerRole": "SLAVE", "brokerId": "3"}, "an id that nobody has"


async def test_a_slave_that_does_not_get_level_leaves_the_fenced_master_as_it_was() -> None:
    group = Group()
    group.ends = [500, 400, 400]
    async with group.serve() as admin:
        with pytest.raises(Stopped, match="lacks 100 bytes of the log; nothing was changed"):
            await group.promote(admin, fence=True, wait_seconds=0.1)
        assert not any(isinstance(one, UpdateBrokerConfig) for one in group.brokers[0].asked)
        group.ends[1] = 500
        update = group.brokers[0].answers[UpdateBrokerConfig]

        def grows(request: UpdateBrokerConfig) -> Any:
            group.ends[0] += 50
            assert callable(update)
            return update(request)

        group.brokers[0].answers[UpdateBrokerConfig] = grows
        with pytest.raises(Stopped, match="lacks 50 bytes of the log; the old master is master again"):
            await group.promote(admin, fence=True, wait_seconds=0.1)
    assert group.roles == AS_BEFORE


@pytest.mark.parametrize(
    ("broker", "options", "is_ours", "says"),
    [
        (1, {"enableControllerMode": "true"}, True, "`orbitmq admin controller elect g 1` makes this broker"),
        (1, {}, False, "is not OrbitMQ's, and changes its role only at a start"),
        (2, {}, True, "has 100 bytes more of the log than .*: promote that one, or stop it"),
    ],
)
async def test_a_member_that_is_not_to_be_master_is_refused(
    broker: int, options: dict[str, str], is_ours: bool, says: str
) -> None:
    group = Group()
    group.options[broker] |= options
    group.is_ours[broker] = is_ours
    async with group.serve() as admin:
        await group.stop_master()
        with pytest.raises(Stopped, match=says):
            await group.promote(admin, group.brokers[broker].address)
    assert group.roles == AS_BEFORE


async def test_a_master_of_which_nothing_can_be_found_out_is_gone_only_if_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, asked = Group(), []

    async def unknown(address: str) -> Reach:
        asked.append(address)
        return Reach.UNKNOWN

    async def yes(question: str) -> bool:
        return "stopped for certain?" in question

    monkeypatch.setattr(old_master, "probe", unknown)
    monkeypatch.setattr(old_master, "LOOK_SECONDS", 0.0)
    group.listed = {1, 2}
    async with group.serve() as admin:
        await group.stop_master()
        with pytest.raises(Stopped, match=r"nobody knows the old master of g \(--old-master\)"):
            await group.promote(admin)
        group.ha_address = "10.0.0.1:10912"
        with pytest.raises(Stopped, match=r"10\.0\.0\.1:10912 cannot be reached.*--master-stopped"):
            await group.promote(admin)
        with pytest.raises(Stopped, match=f"{group.brokers[0].address} cannot be reached"):
            await group.promote(admin, old_master=group.brokers[0].address)
        assert group.roles == AS_BEFORE
        assert (await group.promote(admin, confirm=yes)).before == ("10.0.0.1:10912",)


async def test_an_old_master_that_comes_back_meanwhile_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group()

    async def gone(self: OldMaster, address: str, **_: object) -> bool:
        return True

    monkeypatch.setattr(promoting.OldMaster, "is_gone", gone)
    async with group.serve() as admin:
        # The name server follows the promotion: the last master counts.
        with pytest.raises(Stopped, match="has come back as a master of g beside"):
            await group.promote(admin)
