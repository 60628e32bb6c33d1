"""Brokers among themselves and with those who watch over them: liveness, replication, containers."""

from __future__ import annotations

from orbitmq.protocol.bodies.ha import EpochEntryCache, HARuntimeInfo, SyncStateSet
from orbitmq.protocol.schema.declare import JsonReply, Long, Reply, Request, Void, request, wire


@request(902, to="container")
class AddBroker(Request[Void]):
    """Start another broker in a container process."""

    config_path: str | None = None


@request(903, to="container")
class RemoveBroker(Request[Void]):
    """Stop a broker of a container process."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Long


@request(904, to="namesrv controller")
class BrokerHeartbeat(Request[Void]):
    """A broker lives. One-way; a name server looks at cluster and address only."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: int | None = None
    known_epoch: int | None = wire("orbitmqEpoch", default=None)
    """The last epoch that the broker has heard of; its log may lack it."""
    set_epoch: int | None = wire("orbitmqSetEpoch", default=None)
    """Number of the last change of the in-sync set that the broker has heard of in that epoch."""
    is_master: bool | None = wire("orbitmqMaster", default=None)
    """True if the broker answers as master while its lease holds; absent from brokers without a lease."""


@request(905)
class NotifyMinBrokerIdChange(Request[Void]):
    """Another member of the broker group has the smallest id now. One-way, from name servers."""

    min_broker_id: Long | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class HaInfoReply(Reply):
    """Addresses and flushed offset of the other side."""

    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None
    table_version: Long | None = wire("orbitmqTableVersion", default=None)
    """Number of the last change of a master's tables, in controller mode."""


@request(906)
class ExchangeBrokerHaInfo(Request[HaInfoReply]):
    """Exchange of addresses, and of how far the master has flushed, between master and slave."""

    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None
    broker_id: Long | None = wire("orbitmqBrokerId", default=None)
    table_version: Long | None = wire("orbitmqTableVersion", default=None)
    """A slave with this id has taken over the master's tables up to this change."""
    known_epoch: int | None = wire("orbitmqEpoch", default=None)
    """The last epoch that this slave has heard of."""
    may_be_blind: bool | None = wire("orbitmqBlind", default=None)
    """True if this slave can be left to a master that hears no controller."""


@request(907)
class GetBrokerHaStatus(Request[JsonReply[HARuntimeInfo]]):
    """A broker's side of replication."""


@request(908)
class ResetMasterFlushOffset(Request[Void]):
    """Tell a slave how far its master has flushed."""

    master_flush_offset: Long


@request(1007)
class GetBrokerEpochCache(Request[JsonReply[EpochEntryCache]]):
    """The reigns that a broker's commit log holds; controller mode only."""


@request(1008)
class NotifyBrokerRoleChanged(Request[Void]):
    """The controller says who is master now. One-way."""

    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    master_broker_id: Long | None = None
    body: SyncStateSet | None = None
