"""The offsets of one group for another."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.admin.admin import Admin
from orbitmq.admin.groups import create_group, groups_on
from orbitmq.admin.progress import group_progress
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.offset import CloneGroupOffset


class CannotClone(OrbitError):
    """There is no such group to clone, or one of the new name already."""


async def clone_group(admin: Admin, group: str, name: str) -> list[str]:
    """Makes group `name` on all masters with the settings of `group`, and its offsets on the topics that it
    gives, sorted. The members of `group` may be running; retries that wait stay with it.

    Raises CannotClone for a group that is not known, or a name that is taken.
    """
    masters = await admin.masters()
    settings = await admin.each(masters, lambda one: groups_on(admin, one.address))
    if any(name in present for present in settings):
        raise CannotClone(f"group {name} exists already: choose another name")
    topics = sorted(
        topic
        for topic in {queue.topic for queue in (await group_progress(admin, group)).queues}
        if not topic.startswith(RETRY_PREFIX)
    )
    if not topics and not any(group in present for present in settings):
        raise CannotClone(f"no group {group} is known: check its name")
    for one, present in zip(masters, settings, strict=True):
        if config := present.get(group):
            signed = {f"+{key}": value for key, value in (config.attributes or {}).items()}
            await create_group(admin, one.address, replace(config, group_name=name, attributes=signed))
        for topic in topics:
            await admin.call(one.address, CloneGroupOffset(group, name, topic, offline=True))
    return topics
