"""Questions of commands about controllers, their receivers, and the use of the answers."""

from __future__ import annotations

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.controllers import NoLeader, elect_master, known_controllers, leader_of, replica_groups
from orbitmq.protocol.bodies.ha import BrokerReplicasInfo, ElectionRecord, ReplicasInfo
from orbitmq.protocol.requests.controller import (
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetSyncStateData,
    ElectMasterReply,
    MetadataReply,
)
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import Scripted

NOWHERE = "127.0.0.1:1"


async def test_the_leader_is_found_through_any_controller_that_answers() -> None:
    said = MetadataReply("g", "c2", "127.0.0.1:2", False, "c1:127.0.0.1:1;c2:127.0.0.1:2;")
    async with Scripted({ControllerGetMetadataInfo: said}) as peer, Admin() as admin:
        assert await leader_of(admin, f"{NOWHERE};{peer.address}") == "127.0.0.1:2"


async def test_without_a_leader_each_controller_tells_why() -> None:
    said = MetadataReply("g", None, None, False, "")
    async with Scripted({ControllerGetMetadataInfo: said}) as peer, Admin() as admin:
        with pytest.raises(NoLeader, match=rf"127\.0\.0\.1:1.*{peer.address} knows of no leader"):
            await leader_of(admin, f"{NOWHERE};{peer.address}")


@pytest.mark.parametrize(
    "peers", ["c1:{0};c2:{1};", "{0};{1}", "n0:{0};n1:{1}"], ids=["ours", "JRaft", "DLedger"]
)
async def test_controllers_that_others_know_are_listed_too(peers: str) -> None:
    async with Scripted({}) as other, Scripted({}) as peer, Admin() as admin:
        told = peers.format(peer.address, other.address)
        peer.answers[ControllerGetMetadataInfo] = MetadataReply("g", "c1", peer.address, True, told)
        known = await known_controllers(admin, peer.address)
        assert [one.address for one in known] == [peer.address, other.address]
        assert (known[0].error, known[1].metadata) == ("", None)


async def test_a_master_is_moved_by_the_leader() -> None:
    async with Scripted({}) as peer, Admin() as admin:
        peer.answers = {
            ControllerGetMetadataInfo: MetadataReply("g", "c1", peer.address, True, ""),
            ControllerElectMaster: ElectMasterReply(2, "127.0.0.1:22", 5, 9),
        }
        reply = await elect_master(admin, peer.address, "C", "broker-a", 2)
        assert (reply.master_address, reply.master_epoch) == ("127.0.0.1:22", 5)
        assert peer.asked[-1] == ControllerElectMaster("C", "broker-a", 2, True)


async def test_elections_are_told_and_apaches_controllers_keep_none() -> None:
    ours = ReplicasInfo(1, "a", 2, 2, [], [], [ElectionRecord(1000, 2, 1, "a", "why", 700)])
    async with Scripted({}) as peer, Admin() as admin:
        peer.answers = {
            ControllerGetMetadataInfo: MetadataReply("g", "c1", peer.address, True, ""),
            ControllerGetSyncStateData: JsonReply[BrokerReplicasInfo](
                BrokerReplicasInfo({"broker-a": ours, "apache": ReplicasInfo(1, "a", 2, 2)})
            ),
        }
        groups = await replica_groups(admin, peer.address, ["broker-a", "apache"])
    assert groups["apache"].elections is None
    assert [one.without_master_ms for one in groups["broker-a"].elections or ()] == [700]
