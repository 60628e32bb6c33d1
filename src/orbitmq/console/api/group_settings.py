"""Settings of consumer groups, and the offset of one queue: create, change, delete, set."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from orbitmq.admin.groups import SETTINGS, create_group_on_masters, is_system, known_groups
from orbitmq.admin.groups import delete_group as delete_group_everywhere
from orbitmq.admin.progress import group_progress
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError, check_confirmed
from orbitmq.console.api.topics import ChangedOn, Deletion
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import check_group


class GroupSettings(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Settings of a group, as at the first of its brokers."""

    max_retries: Annotated[int, msgspec.Meta(ge=-1, le=1_000_000)] = 16
    """Deliveries after the first one before a message is a dead letter."""
    retry_queues: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 1
    """Queues of the retry topic on each broker."""
    enabled: bool = True
    """False: brokers give the group nothing."""
    broadcast: bool = True
    """Members that broadcast are allowed."""
    orderly: bool = False
    """Members that pop get messages of a queue in order."""


class GroupChange(GroupSettings, rename="camel", forbid_unknown_fields=True):
    """A group to create, or the settings that one is to have."""

    create: bool = False
    """Refuse it where the group is there already."""


class QueueOffset(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The place at which a group continues in one queue."""

    topic: str
    broker: str
    queue_id: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}/settings", Role.VIEWER)
async def get_group_settings(call: Call[None, None]) -> GroupSettings:
    """The settings of a group."""
    found = await _settings(call)
    if found is None:
        group = call.path["group"]
        raise ApiError(404, "GROUP_NOT_EXIST", f"no broker has settings of group {group}", "Check the name.")
    return found


@endpoint("PUT", "/api/clusters/{cluster}/groups/{group}/settings", Role.ADMIN)
async def put_group(call: Call[None, GroupChange]) -> ChangedOn:
    """Create a group on all masters, or change its settings."""
    group, body = call.path["group"], call.body
    check_group(group)
    _check_own(group)
    present = await _settings(call)
    if body.create and present is not None:
        raise ApiError(409, "GROUP_EXISTS", f"there is a group {group} already", "Choose another name.")
    call.before = None if present is None else msgspec.to_builtins(present)
    call.after = msgspec.to_builtins(body)
    changes = {name: getattr(body, name) for name in SETTINGS}
    return ChangedOn(await create_group_on_masters(call.cluster.admin, group, **changes))


@endpoint("DELETE", "/api/clusters/{cluster}/groups/{group}", Role.ADMIN)
async def delete_group(call: Call[None, Deletion]) -> ChangedOn:
    """Delete a group, its offsets, and its retry and dead-letter topics."""
    group = call.path["group"]
    check_confirmed(call.body.confirm, group, "group", "delete")
    _check_own(group)
    present = await _settings(call)
    call.before = None if present is None else msgspec.to_builtins(present)
    return ChangedOn(await delete_group_everywhere(call.cluster.admin, group))


@endpoint("PUT", "/api/clusters/{cluster}/groups/{group}/offset", Role.OPERATOR)
async def set_group_offset(call: Call[None, QueueOffset]) -> QueueOffset:
    """Set where a group continues in one queue."""
    admin, group, body = call.cluster.admin, call.path["group"], call.body
    queue = MessageQueue(body.topic, body.broker, body.queue_id)
    progress = (await group_progress(admin, group, body.topic)).queues.get(queue)
    if progress is not None:
        call.before = {"offset": progress.consumer_offset}
        if body.offset > progress.broker_offset:
            raise ApiError(
                422,
                "OFFSET",
                f"the queue ends at {progress.broker_offset}",
                "Take that or less.",
                field="offset",
            )
    call.after = msgspec.to_builtins(body)
    body.offset = await admin.set_offset(group, queue, body.offset)
    return body


def _check_own(group: str) -> None:
    if is_system(group):
        raise ApiError(409, "SYSTEM_GROUP", f"{group} is the brokers' own", "Brokers need it.")


async def _settings(call: Call[Any, Any]) -> GroupSettings | None:
    known = (await known_groups(call.cluster.admin, everything=True)).get(call.path["group"])
    if known is None:
        return None
    return GroupSettings(*(getattr(known.config, field) for field in SETTINGS.values()))
