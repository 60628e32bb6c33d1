"""Replication: the state of masters and slaves, epochs, and what the controller knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.bodies.route import BrokerMemberGroup
from orbitmq.protocol.schema.json_body import JsonBody, Long


@dataclass(slots=True)
class HAConnectionRuntimeInfo(JsonBody):
    """One slave as its master sees it; offsets in bytes of the commit log."""

    addr: str = ""
    slave_ack_offset: Long = 0
    diff: Long = 0
    in_sync: bool = False
    transferred_byte_in_second: Long = 0
    transfer_from_where: Long = 0
    diff_millis: Long | None = None
    """For how long the oldest byte of `diff` has waited; Apache's brokers do not say it."""


@dataclass(slots=True)
class HAClientRuntimeInfo(JsonBody):
    """A slave as it sees itself; times in ms."""

    master_addr: str = ""
    transferred_byte_in_second: Long = 0
    max_offset: Long = 0
    last_read_timestamp: Long = 0
    last_write_timestamp: Long = 0
    master_flush_offset: Long = 0


@dataclass(slots=True)
class HARuntimeInfo(JsonBody):
    """A broker's side of replication."""

    master: bool = False
    master_commit_log_max_offset: Long = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)


@dataclass(slots=True)
class EpochEntry(JsonBody):
    """A master's reign: from which commit log offset to which."""

    epoch: int = 0
    start_offset: Long = 0
    end_offset: Long = 0


@dataclass(slots=True)
class EpochEntryCache(JsonBody):
    """The reigns that a broker's commit log holds."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Long = 0
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: Long = 0


@dataclass(slots=True)
class SyncStateSet(JsonBody):
    """The broker ids that hold everything the master has."""

    sync_state_set: set[Long] | None = None
    sync_state_set_epoch: int = 0


@dataclass(slots=True)
class ElectMasterResponseBody(JsonBody):
    """Members of the group, and those in sync, after an election."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: set[Long] = field(default_factory=set)


@dataclass(slots=True)
class ReplicaIdentity(JsonBody):
    """One broker of a group as the controller knows it."""

    broker_name: str = ""
    broker_id: Long = 0
    broker_address: str = ""
    alive: bool | None = None


@dataclass(slots=True)
class ElectionRecord(JsonBody):
    """One election of a group's master; times in ms. Apache's controllers do not send it."""

    at_ms: Long = 0
    master_epoch: int = 0
    master_broker_id: Long | None = None
    """Releases up to 0.2.0 send None where a group lost its master."""
    master_address: str = ""
    reason: str = ""
    without_master_ms: Long = 0
    unclean: bool = False
    lost_bytes: Long = 0
    ended_ms: Long | None = None
    """The moment from which on the group had no master; None if another election followed at once."""
    ended_because: str = ""


@dataclass(slots=True)
class ReplicasInfo(JsonBody):
    """A broker group as the controller knows it."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: int = 0
    sync_state_set_epoch: int = 0
    in_sync_replicas: list[ReplicaIdentity] | None = None
    not_in_sync_replicas: list[ReplicaIdentity] | None = None
    elections: list[ElectionRecord] | None = None
    """The newest last; Apache's controllers do not send it."""


@dataclass(slots=True)
class BrokerReplicasInfo(JsonBody):
    """Broker groups by name."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerNames(JsonBody):
    """A bare list of broker names."""

    BARE = "names"

    names: list[str] = field(default_factory=list)
