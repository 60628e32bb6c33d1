"""Controllers, and the masters that they elect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orbitmq.admin.admin import Admin
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.ha import BrokerNames, EpochEntryCache, ReplicasInfo
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import (
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetSyncStateData,
    ElectMasterReply,
    MetadataReply,
)
from orbitmq.protocol.requests.ha import GetBrokerEpochCache

_PEER = re.compile(r"(?:^|[:;])((?:\[[^\]]*\]|[^:;\[\]]+):\d+)(?=;|$)")
"""The address of one controller in the list that a controller gives: `id:host:port;id:host:port`."""


class NoLeader(OrbitError):
    """No controller leads, as far as those say that could be reached."""


@dataclass(frozen=True, slots=True)
class KnownController:
    """One controller by its own report; `error` if it does not answer."""

    address: str
    metadata: MetadataReply | None
    error: str = ""

    @property
    def leads(self) -> bool:
        return self.metadata is not None and bool(self.metadata.is_leader)


async def known_controllers(admin: Admin, controllers: str) -> list[KnownController]:
    """The controllers of a list, and those that they know. Raises BadAddress."""

    async def ask(address: str) -> KnownController:
        try:
            return KnownController(address, await admin.call(address, ControllerGetMetadataInfo()))
        except OrbitError as error:
            return KnownController(address, None, str(error))

    found = await admin.each(parse_addresses(controllers), ask)
    known = {one.address for one in found}
    peers = {
        address
        for one in found
        if one.metadata is not None
        for address in _PEER.findall(one.metadata.peers or "")
    }
    return found + await admin.each(sorted(peers - known), ask)


async def leader_of(admin: Admin, controllers: str) -> str:
    """The address of the leading controller. Raises NoLeader, BadAddress."""
    failures = []
    for address in parse_addresses(controllers):
        try:
            said = await admin.call(address, ControllerGetMetadataInfo())
        except NetError as error:
            failures.append(str(error))
            continue
        if said.controller_leader_address:
            return said.controller_leader_address
        failures.append(f"{address} knows of no leader")
    raise NoLeader(f"no controller leads: {'; '.join(failures)}")


async def replica_groups(admin: Admin, controllers: str, names: Sequence[str]) -> dict[str, ReplicasInfo]:
    """Broker groups as the leading controller knows them; without names those of the name servers."""
    chosen = list(names) or sorted((await admin.clusters()).broker_addr_table or {})
    leader = await leader_of(admin, controllers)
    reply = await admin.call(leader, ControllerGetSyncStateData(BrokerNames(chosen)))
    return dict(sorted(reply.body.replicas_info_table.items()))


@dataclass(frozen=True, slots=True)
class Election:
    """One change of the master of a broker group."""

    at_ms: int
    broker: str
    epoch: int
    master: int | None
    """Id of the new master; None: the group lost its master."""
    address: str
    reason: str
    without_master_ms: int
    lost_bytes: int | None
    """Bytes lost with an unclean election."""
    ended_ms: int | None
    """The end of a reign that no other one followed."""
    ended_because: str | None


async def elections(admin: Admin, controllers: str, names: Sequence[str] = ()) -> list[Election]:
    """Elections in broker groups, or in all groups, the oldest first. Apache's controllers keep none."""
    found = [
        Election(
            one.at_ms,
            name,
            one.master_epoch,
            one.master_broker_id,
            one.master_address,
            one.reason,
            one.without_master_ms,
            one.lost_bytes if one.unclean else None,
            one.ended_ms,
            one.ended_because or None,
        )
        for name, group in (await replica_groups(admin, controllers, names)).items()
        for one in group.elections or ()
    ]
    return sorted(found, key=lambda one: one.at_ms)


async def elect_master(
    admin: Admin, controllers: str, cluster: str, broker: str, broker_id: int
) -> ElectMasterReply:
    """Makes an in-sync replica master. Raises BrokerRefused if it cannot be."""
    leader = await leader_of(admin, controllers)
    return await admin.call(leader, ControllerElectMaster(cluster, broker, broker_id, True))


async def broker_epochs(admin: Admin, address: str) -> EpochEntryCache:
    """The reigns in the log of a broker in controller mode."""
    return (await admin.call(address, GetBrokerEpochCache())).body
