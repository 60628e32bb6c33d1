"""Making, changing, deleting and listing subscription groups."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.metadata import names
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.options import TopicOptions
from orbitmq.broker.metadata.pagination import page
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Result, in_turns
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.bodies.group import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupWrapper
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.protocol.requests.group import (
    AllGroupConfigReply,
    DeleteSubscriptiongroup,
    DeleteSubscriptionGroupList,
    GetAllSubscriptiongroupConfig,
    GetSubscriptiongroupConfig,
    UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList,
    UpdateAndGetGroupForbidden,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void


@dataclass(slots=True)
class GroupTables:
    """Tables of the administration of groups."""

    settings: TopicOptions
    groups: GroupTable
    offsets: OffsetTable
    stats: BrokerStats
    dirty_tables: DirtyTables


@handlers(UpdateAndCreateSubscriptiongroup)
def update_and_create_subscriptiongroup(
    tables: GroupTables, call: Call[UpdateAndCreateSubscriptiongroup], now: int
) -> Result:
    """Makes a group or replaces its config."""
    wanted = call.request.body
    names.check_group_name(wanted.group_name)
    tables.groups.update(wanted, now)
    return after_saving(tables.dirty_tables, Void(), now, tables.groups.NAME)


CONFIGS_PER_TURN = 500
"""Groups of a list that are checked or changed in one turn, about 5 ms; other requests follow."""


@handlers(UpdateAndCreateSubscriptiongroupList)
def update_and_create_subscriptiongroup_list(
    tables: GroupTables, call: Call[UpdateAndCreateSubscriptiongroupList], now: int
) -> Result:
    """Makes or replaces several groups: all, or none if one is wrong. A long list takes several turns."""
    return in_turns(_update_all(tables, call.request.body.group_config_list or [], now), now)


def _update_all(
    tables: GroupTables, configs: list[SubscriptionGroupConfig], now: int
) -> Generator[None, None, Result]:
    for number, wanted in enumerate(configs, 1):
        names.check_group_name(wanted.group_name)
        tables.groups.altered(wanted, tables.groups.get(wanted.group_name))
        if number % CONFIGS_PER_TURN == 0:
            yield
    for number, wanted in enumerate(configs, 1):
        tables.groups.update(wanted, now)
        if number % CONFIGS_PER_TURN == 0:
            yield
    return after_saving(tables.dirty_tables, Void(), now, tables.groups.NAME)


@handlers(DeleteSubscriptiongroup)
def delete_subscriptiongroup(tables: GroupTables, call: Call[DeleteSubscriptiongroup], now: int) -> Result:
    """Removes a group, and its offsets if asked; its retry and dead-letter topics stay."""
    request = call.request
    _delete(tables, request.group_name, request.clean_offset, now)
    return after_saving(tables.dirty_tables, Void(), now, tables.groups.NAME, tables.offsets.NAME)


@handlers(DeleteSubscriptionGroupList)
def delete_subscription_group_list(
    tables: GroupTables, call: Call[DeleteSubscriptionGroupList], now: int
) -> Result:
    """Removes several groups: none if the name of one is blank. A long list takes several turns."""
    wanted = call.request.body
    groups = dict.fromkeys(wanted.group_name_list or ())
    if not groups:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified group name list is blank.")
    if any(not group.strip() for group in groups):
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified group name is blank.")

    def work() -> Generator[None, None, Result]:
        for number, group in enumerate(groups, 1):
            _delete(tables, group, wanted.clean_offset, now)
            if number % CONFIGS_PER_TURN == 0:
                yield
        return after_saving(tables.dirty_tables, Void(), now, tables.groups.NAME, tables.offsets.NAME)

    return in_turns(work(), now)


def _delete(tables: GroupTables, group: str, with_offsets: bool, now: int) -> None:
    """Offsets of a group of lite topics go with it: the lite topics would outlive them for ever."""
    config = tables.groups.get(group)
    is_bound = config is not None and bound_topic(config) is not None
    tables.groups.delete(group, now)
    if with_offsets or is_bound:
        tables.offsets.remove_group(group, now)
    tables.stats.forget_group(group)


@handlers(GetAllSubscriptiongroupConfig)
def get_all_subscriptiongroup_config(
    tables: GroupTables, call: Call[GetAllSubscriptiongroupConfig], now: int
) -> Reply:
    """All groups, or a page of them by name."""
    request, groups = call.request, tables.groups
    found = page(
        groups.by_name,
        request.group_seq,
        request.max_group_num,
        request.data_version,
        groups.version,
        tables.settings.split_metadata_size if tables.settings.enable_split_metadata else None,
    )
    return AllGroupConfigReply(
        total_group_num=len(groups.by_name),
        body=SubscriptionGroupWrapper(found, groups.forbidden, groups.version),
    )


@handlers(GetSubscriptiongroupConfig)
def get_subscriptiongroup_config(
    tables: GroupTables, call: Call[GetSubscriptiongroupConfig], now: int
) -> Result:
    """The config of one group, which is made if groups may be made by naming them."""
    name = call.request.group
    config = tables.groups.find(name, now)
    if config is None:
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}")
    reply = JsonReply(config)
    return after_saving(tables.dirty_tables, reply, now, tables.groups.NAME)


@handlers(UpdateAndGetGroupForbidden)
def update_and_get_group_forbidden(
    tables: GroupTables, call: Call[UpdateAndGetGroupForbidden], now: int
) -> Result:
    """Says whether a group may read a topic, after changing it if asked."""
    request = call.request
    if request.readable is not None:
        tables.groups.set_readable(request.group, request.topic, request.readable, now)
    reply = JsonReply(
        body=GroupForbidden(
            topic=request.topic,
            group=request.group,
            readable=not tables.groups.is_forbidden(request.group, request.topic),
        )
    )
    return after_saving(tables.dirty_tables, reply, now, tables.groups.NAME)
