"""Requests of brokers: their ids, their addresses, their heartbeats, and who is in sync; and elections."""

from __future__ import annotations

from shlex import quote

from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.handlers.fields import address_of, number_of, text_of
from orbitmq.controller.live import DEFAULT_TIMEOUT_MS, LEAST_TIMEOUT_MS, MAX_TIMEOUT_MS, LiveBroker
from orbitmq.controller.tables import ControllerTables, handlers
from orbitmq.handling.call import Call, Result
from orbitmq.protocol.bodies.ha import ElectMasterResponseBody, SyncStateSet
from orbitmq.protocol.bodies.route import BrokerMemberGroup
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import (
    AppliedReply,
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
    ElectMasterReply,
    NextBrokerIdReply,
    RegisteredReply,
    ReplicaInfoReply,
    SyncStateSetReply,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.schema.declare import Void

NO_BROKER_ID = -1
"""The broker id of an election that names no member."""
SUCCESS = 0


@handlers(ControllerGetNextBrokerId)
def get_next_broker_id(tables: ControllerTables, call: Call[ControllerGetNextBrokerId], now: int) -> Result:
    """An id that a new member may apply for."""
    tables.need_leadership(now)
    request = call.request
    name = text_of(request.broker_name, "brokerName")
    reply = NextBrokerIdReply(request.cluster_name, name, tables.groups.next_broker_id(name))
    return tables.journal.after_commit(reply, now)


@handlers(ControllerApplyBrokerId)
def apply_broker_id(tables: ControllerTables, call: Call[ControllerApplyBrokerId], now: int) -> Result:
    """Gives an id to a broker."""
    tables.need_leadership(now)
    request = call.request
    cluster = text_of(request.cluster_name, "clusterName")
    name = text_of(request.broker_name, "brokerName")
    broker_id = number_of(request.applied_broker_id, "appliedBrokerId")
    tables.groups.apply_broker_id(
        cluster, name, broker_id, text_of(request.register_check_code, "registerCheckCode"), now
    )
    return tables.journal.after_commit(AppliedReply(cluster, name), now)


@handlers(ControllerRegisterBroker)
def register_broker(tables: ControllerTables, call: Call[ControllerRegisterBroker], now: int) -> Result:
    """Notes where a broker is; the reply names the master if it lives."""
    tables.need_leadership(now)
    request = call.request
    group = tables.groups.register(
        text_of(request.broker_name, "brokerName"),
        number_of(request.broker_id, "brokerId"),
        address_of(request.broker_address, "brokerAddress"),
        _or(request.epoch, 0),
        None if request.run is None else text_of(request.run, "orbitmqRun"),
        None if request.last_run is None else text_of(request.last_run, "orbitmqLastRun"),
    )
    if group.master_id == request.broker_id:
        group = tables.groups.master_began_anew(group, now)
    reply = RegisteredReply(group.cluster, group.name, body=_sync_state_set(group))
    if tables.groups.is_live(group, group.master_id):
        reply.master_broker_id = group.master_id
        reply.master_address = group.master_address
        reply.master_epoch = group.master_epoch
        reply.sync_state_set_epoch = group.sync_state_set_epoch
    return tables.journal.after_commit(reply, now)


@handlers(BrokerHeartbeat)
def broker_heartbeat(tables: ControllerTables, call: Call[BrokerHeartbeat], now: int) -> Result:
    """Notes a sign of life. A broker that asks for an answer may take it for its lease."""
    request = call.request
    broker_id = number_of(request.broker_id, "brokerId")
    name = text_of(request.broker_name, "brokerName")
    beat = _live_broker(request, call, now)
    member = (name, broker_id)
    if not tables.leadership.leads:
        tables.live.heartbeat(member, beat)
        tables.need_leadership(now)
    group = tables.groups.need(name)
    if not tables.groups.is_member(member, beat):
        raise Refused(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            f"broker {broker_id} of {name} is not registered at {request.broker_addr}",
        )
    was_away = tables.live.get(member) is None
    group = tables.groups.heard(group, broker_id, beat, now)
    tables.need_leadership(now)
    if was_away or group.is_restored:
        tables.groups.elect_where_needed(now, f"broker {broker_id} is back")
    group = tables.groups.need(name)
    if group.is_restored:
        raise Refused(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, _why_restored(tables, group))
    if beat.epoch > 0 and group.master_id != broker_id and beat.epoch < group.master_epoch:
        # A master before learns here that it is none, should the notice have been lost.
        raise Refused(
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            f"{group.name} is in master epoch {group.master_epoch}, not in {beat.epoch}",
        )
    return tables.journal.after_commit(Void(remark="Heart beat success"), now)


def _live_broker(request: BrokerHeartbeat, call: Call[BrokerHeartbeat], now: int) -> LiveBroker:
    timeout_ms = request.heartbeat_timeout_mills
    timeout_ms = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
    if timeout_ms > MAX_TIMEOUT_MS:
        # Its lease would be longer than the time for which this controller waits for it.
        raise Refused(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"a heartbeat counts for at most {MAX_TIMEOUT_MS} ms, not {timeout_ms}: set "
            "controllerHeartBeatTimeoutMills of this broker",
        )
    epoch = _or(request.epoch, -1)
    return LiveBroker(
        address=address_of(request.broker_addr, "brokerAddr"),
        connection_id=call.peer.connection_id,
        last_ms=now,
        timeout_ms=max(LEAST_TIMEOUT_MS, timeout_ms),
        epoch=epoch,
        max_offset=_or(request.max_offset, -1),
        confirm_offset=_or(request.confirm_offset, -1),
        election_priority=_or(request.election_priority, 1 << 31),
        known_epoch=max(epoch, _or(request.known_epoch, -1)),
        set_epoch=_or(request.set_epoch, -1),
        is_master=request.is_master,
        peer=call.peer.address,
    )


def _why_restored(tables: ControllerTables, group: BrokerGroup) -> str:
    if group.was_never_elected:
        return (
            f"{group.name} was cleaned, or its consensus store is new, and its members may have messages of "
            "a blind master: once all of them are registered, name the master by `orbitmq admin controller "
            f"elect {quote(group.name)} ID`"
        )
    missing = ", ".join(map(str, tables.groups.unheard(group))) or "none"
    return (
        f"the consensus store was restored: {group.name} has had epoch {group.master_epoch}, and change "
        f"{group.sync_state_set_epoch} of its in-sync set, since. It gets a master once all members were "
        f"heard (missing: {missing}), or an operator elects one"
    )


@handlers(ControllerAlterSyncStateSet)
def alter_sync_state_set(
    tables: ControllerTables, call: Call[ControllerAlterSyncStateSet], now: int
) -> Result:
    """The in-sync set as the master reports it."""
    tables.need_leadership(now)
    request = call.request
    body = request.body
    if body is None or body.sync_state_set is None:
        raise Refused(ResponseCode.CONTROLLER_INVALID_REQUEST, "the request has no in-sync set")
    group = tables.groups.alter_sync_state_set(
        text_of(request.broker_name, "brokerName"),
        number_of(request.master_broker_id, "masterBrokerId"),
        number_of(request.master_epoch, "masterEpoch"),
        frozenset(body.sync_state_set),
        body.sync_state_set_epoch,
        renews=bool(request.renews),
    )
    reply = SyncStateSetReply(group.sync_state_set_epoch, _sync_state_set(group))
    return tables.journal.after_commit(reply, now)


@handlers(ControllerElectMaster)
def elect_master(tables: ControllerTables, call: Call[ControllerElectMaster], now: int) -> Result:
    """Elects a master: the member asked for, or the best one; or says who it is."""
    tables.need_leadership(now)
    request = call.request
    group = tables.groups.need(request.broker_name)
    by_operator = request.designate_elect or request.broker_id == NO_BROKER_ID
    named = None if request.broker_id == NO_BROKER_ID else request.broker_id
    if named is not None and named not in group.replicas:
        raise Refused(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            f"BrokerId: {named} of {group.name} hasn't been registered in controller",
        )
    preferred = named if request.designate_elect else None
    asker = "an operator" if by_operator else f"broker {named}"
    result = tables.groups.elect(
        group, now, f"asked for by {asker}", preferred=preferred, first=named, by_operator=by_operator
    )
    group = result.group
    if result.changed and group.master_id is not None:
        return tables.journal.after_commit(_elected(tables, group, SUCCESS, now), now)
    wanted = group.master_id if preferred is None else preferred
    if group.master_id is not None and group.master_id == wanted and tables.groups.is_live(group, wanted):
        reply = _elected(tables, group, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, now)
        reply.remark = f"the old master {group.master_address} of {group.name} still exists"
        return tables.journal.after_commit(reply, now)
    code = (
        ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
        if named is None
        else ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    )
    if group.is_restored:
        raise Refused(code, _why_restored(tables, group))
    raise Refused(code, f"Failed to elect a new master: no suitable in-sync replica of {group.name} is alive")


class _QuotedKeys(ElectMasterResponseBody):
    """The body with quoted broker ids: Apache's brokers and tools cannot read its own bare ones here."""

    __slots__ = ()

    def to_json(self) -> bytes:
        return self.to_standard_json()


def _elected(tables: ControllerTables, group: BrokerGroup, code: int, now: int) -> ElectMasterReply:
    living = {
        broker_id: replica.address
        for broker_id, replica in group.replicas.items()
        if tables.groups.is_live(group, broker_id)
    }
    return ElectMasterReply(
        group.master_id,
        group.master_address,
        group.master_epoch,
        group.sync_state_set_epoch,
        _QuotedKeys(BrokerMemberGroup(group.cluster, group.name, living), set(group.sync_state_set)),
        wait_ms=tables.groups.lease_left_ms(group, now) or None,
        only_in_sync=not tables.settings.enable_elect_unclean_master,
        code=code,
    )


@handlers(ControllerGetReplicaInfo)
def get_replica_info(tables: ControllerTables, call: Call[ControllerGetReplicaInfo], now: int) -> Result:
    """The master of a group and who is in sync."""
    tables.need_leadership(now)
    group = tables.groups.need(call.request.broker_name, ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST)
    only_in_sync = not tables.settings.enable_elect_unclean_master
    reply = ReplicaInfoReply(body=_sync_state_set(group), only_in_sync=only_in_sync)
    if group.master_id is not None:
        reply.master_broker_id = group.master_id
        reply.master_address = group.master_address
        reply.master_epoch = group.master_epoch
        reply.wait_ms = tables.groups.lease_left_ms(group, now) or None
    return tables.journal.after_commit(reply, now)


def _sync_state_set(group: BrokerGroup) -> SyncStateSet:
    return SyncStateSet(set(group.sync_state_set), group.sync_state_set_epoch)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
