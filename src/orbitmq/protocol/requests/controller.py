"""Requests between brokers, tools and controllers."""

from __future__ import annotations

from orbitmq.protocol.bodies.ha import BrokerNames, BrokerReplicasInfo, ElectMasterResponseBody, SyncStateSet
from orbitmq.protocol.schema.declare import Blob, Bytes, JsonReply, Long, Reply, Request, Void, request, wire


class SyncStateSetReply(Reply):
    """The set as it is now."""

    new_sync_state_set_epoch: int = 0
    body: SyncStateSet | None = None


@request(1001, to="controller")
class ControllerAlterSyncStateSet(Request[SyncStateSetReply]):
    """A master says which members hold everything."""

    broker_name: str | None = None
    master_broker_id: Long | None = None
    master_epoch: int | None = None
    invoke_time: Long = 0
    body: SyncStateSet | None = None
    renews: bool | None = wire("orbitmqRenew", default=None)
    """True if the set is to stay as it is, and its epoch to grow: requests of before are refused from then
    on. Apache's controllers refuse that.
    """


class ElectMasterReply(Reply):
    """The present master."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    body: ElectMasterResponseBody | None = None
    wait_ms: Long | None = wire("orbitmqWaitMs", default=None)
    """Time for which another member's lease may hold: the master begins after it. Absent if none does."""
    only_in_sync: bool | None = wire("orbitmqOnlyInSync", default=None)
    """True if the controller elects no member out of sync; absent from Apache's."""


@request(1002, to="controller")
class ControllerElectMaster(Request[ElectMasterReply]):
    """Elect a master of a broker group, `broker_id` if it can be and `designate_elect` asks for it."""

    accepts = (2011,)

    cluster_name: str
    broker_name: str
    broker_id: Long
    designate_elect: bool
    invoke_time: Long | None = None


class RegisteredReply(Reply):
    """The present master; without one the fields are absent."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    body: SyncStateSet | None = None


@request(1003, to="controller")
class ControllerRegisterBroker(Request[RegisteredReply]):
    """A broker with its id and address."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Long | None = None
    broker_address: str | None = None
    invoke_time: Long = 0
    epoch: int | None = wire("orbitmqEpoch", default=None)
    """The last epoch of its log."""
    run: str | None = wire("orbitmqRun", default=None)
    """With enableBlindMaster: this run of its process; no other has this text."""
    last_run: str | None = wire("orbitmqLastRun", default=None)
    """The run before, whose log this one has in full; absent if it may lack the end of that."""


class ReplicaInfoReply(Reply):
    """The master of a broker group."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    body: SyncStateSet | None = None
    wait_ms: Long | None = wire("orbitmqWaitMs", default=None)
    """As in ElectMasterReply."""
    only_in_sync: bool | None = wire("orbitmqOnlyInSync", default=None)


@request(1004, to="controller")
class ControllerGetReplicaInfo(Request[ReplicaInfoReply]):
    """The master of a broker group and who is in sync."""

    broker_name: str | None = None


class MetadataReply(Reply):
    """The controllers and which of them leads."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


@request(1005, to="controller")
class ControllerGetMetadataInfo(Request[MetadataReply]):
    """The controllers and which of them leads."""


@request(1006, to="controller")
class ControllerGetSyncStateData(Request[JsonReply[BrokerReplicasInfo]]):
    """Broker groups by name as the controller knows them."""

    body: BrokerNames


@request(1009, to="controller")
class UpdateControllerConfig(Request[Void]):
    """Set options of the controller; the body is Java properties text."""

    body: Bytes | None = None


@request(1010, to="controller")
class GetControllerConfig(Request[Blob]):
    """Every option of the controller as `key=value` lines."""


@request(1011, to="controller")
class CleanBrokerData(Request[Void]):
    """Forget a broker group, or some of its members."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Long = 0


class NextBrokerIdReply(Reply):
    """A free id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Long | None = None


@request(1012, to="controller")
class ControllerGetNextBrokerId(Request[NextBrokerIdReply]):
    """An id that a new member of a broker group may apply for."""

    cluster_name: str | None = None
    broker_name: str | None = None


class AppliedReply(Reply):
    """The group whose member the broker is now."""

    cluster_name: str | None = None
    broker_name: str | None = None


@request(1013, to="controller")
class ControllerApplyBrokerId(Request[AppliedReply]):
    """Take an id; the check code says who took it."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Long | None = None
    register_check_code: str | None = None
