"""Requests of tools: the controllers, the groups, the options, and cleaning up."""

from __future__ import annotations

from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.controller.tables import ControllerTables, handlers
from orbitmq.handling.call import Call, Result
from orbitmq.handling.option_updates import parse_update, update_errors_refused
from orbitmq.options.properties import format_properties
from orbitmq.protocol.bodies.ha import BrokerReplicasInfo, ElectionRecord, ReplicaIdentity, ReplicasInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    ControllerGetMetadataInfo,
    ControllerGetSyncStateData,
    GetControllerConfig,
    MetadataReply,
    UpdateControllerConfig,
)
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply, Void

NEVER_OVER_THE_NETWORK = "configBlackList;configStorePath;rocketmqHome"
"""Options that UPDATE_CONTROLLER_CONFIG may not change, whatever the black list says."""
UPDATES_KEY = "options"
"""Key of changed options in the consensus store, below the prefix of the controllers."""


@handlers(ControllerGetMetadataInfo)
def get_metadata_info(tables: ControllerTables, call: Call[ControllerGetMetadataInfo], now: int) -> Reply:
    """The controllers and their leader; every controller answers it."""
    leadership = tables.leadership
    peers = "".join(f"{one}:{address};" for one, address in sorted(leadership.peers.items()))
    return MetadataReply(
        leadership.group, leadership.leader_id, leadership.leader_address, leadership.leads, peers
    )


@handlers(ControllerGetSyncStateData)
def get_sync_state_data(tables: ControllerTables, call: Call[ControllerGetSyncStateData], now: int) -> Result:
    """Groups by name; unknown ones are left out."""
    tables.need_leadership(now)
    table = {}
    for name in call.request.body.names:
        group = tables.groups.get(name)
        if group is not None:
            table[name] = _replicas(tables, group)
    return tables.journal.after_commit(JsonReply(BrokerReplicasInfo(table)), now)


def _replicas(tables: ControllerTables, group: BrokerGroup) -> ReplicasInfo:
    in_sync: list[ReplicaIdentity] = []
    others: list[ReplicaIdentity] = []
    for broker_id, replica in sorted(group.replicas.items()):
        alive = tables.groups.is_live(group, broker_id)
        identity = ReplicaIdentity(group.name, broker_id, replica.address, alive)
        (in_sync if broker_id in group.sync_state_set else others).append(identity)
    elections = [
        ElectionRecord(
            one.at_ms,
            one.master_epoch,
            one.master_id,
            one.master_address,
            one.reason,
            one.without_master_ms,
            one.is_unclean,
            one.lost_bytes,
            one.ended_ms,
            one.ended_because,
        )
        for one in group.elections
    ]
    return ReplicasInfo(
        group.master_id,
        group.master_address,
        group.master_epoch,
        group.sync_state_set_epoch,
        in_sync,
        others,
        elections,
    )


@handlers(CleanBrokerData)
def clean_broker_data(tables: ControllerTables, call: Call[CleanBrokerData], now: int) -> Result:
    """Forgets a group, or some of its members."""
    tables.need_leadership(now)
    request = call.request
    try:
        ids = frozenset(
            int(one) for one in (request.broker_controller_ids_to_clean or "").split(";") if one.strip()
        )
    except ValueError:
        raise Refused(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            "broker ids are numbers with `;` between",
        ) from None
    tables.groups.clean(request.broker_name, ids, now, even_living=request.is_clean_living_broker)
    return tables.journal.after_commit(Void(), now)


@handlers(UpdateControllerConfig)
def update_controller_config(
    tables: ControllerTables, call: Call[UpdateControllerConfig], now: int
) -> Result:
    """Sets options, all of the request or none. The store keeps them, so that every leader has them."""
    tables.need_leadership(now)
    body = call.request.body
    if not body:
        return Void()
    black_list = f"{NEVER_OVER_THE_NETWORK};{tables.settings.config_black_list}"
    with update_errors_refused(black_list):
        changed = CONTROLLER_TABLE.apply_update(tables.settings, parse_update(body), black_list)
    if changed:
        values = CONTROLLER_TABLE.as_properties(tables.settings)
        tables.updates.update({name: values[name] for name in changed})
        tables.journal.put(UPDATES_KEY, format_properties(tables.updates))
    return tables.journal.after_commit(Void(), now)


@handlers(GetControllerConfig)
def get_controller_config(tables: ControllerTables, call: Call[GetControllerConfig], now: int) -> Reply:
    """Every option and its value, a line each."""
    values = CONTROLLER_TABLE.as_properties(tables.settings)
    return Blob("".join(f"{name}={value}\n" for name, value in values.items()).encode())
