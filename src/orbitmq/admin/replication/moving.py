"""The move of a broker to another host, while clients work: a new member of its group takes its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.replication.new_slave import free_id, slave_command
from orbitmq.admin.replication.old_master import LOOK_SECONDS, OldMaster, Stopped
from orbitmq.admin.replication.promoting import PromotionRequest, promote, until_level
from orbitmq.admin.replication.survey import ORBITMQ, GroupSurvey, Replica, survey_one
from orbitmq.net.address import parse_address

WAIT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Move:
    """The result of a move."""

    group: str
    before: str
    """Address of the member that was moved: a slave now, which may be stopped. That of the new one if it was
    moved before.
    """
    after: str
    was_master: bool


async def move(
    admin: Admin, broker: str, to: str, say: Callable[[str], None], wait_seconds: float = WAIT_SECONDS
) -> Move:
    """Puts a member at `to`, `host:port`, into the place of a broker: a group, whose master is meant, or
    `host:port`. Waits for the new member to be started and to have everything.

    Raises Stopped, NoBroker, NetError, BrokerRefused, BadAddress.
    """
    parse_address(to)
    deadline = time.monotonic() + wait_seconds
    [at, *_] = await admin.brokers(broker=broker)
    found = await survey_one(admin, at.name)
    master = found.master
    if master is None or master.error:
        raise Stopped(f"{found.name} has no master that answers: start it, or promote a slave")
    moved = master if broker == found.name else _member(found, broker)
    if moved.at.address == to:
        return Move(found.name, to, to, moved is master)
    _check(found, master, moved, to)
    added = await _added(admin, found, master, to, say, deadline)
    if added.options.get("brokerRole") != "SLAVE":
        return Move(found.name, moved.at.address, to, False)
    await until_level(admin, master, added, max(0.0, deadline - time.monotonic()), "nothing was changed")
    if added.log_begin > moved.log_begin:
        raise Stopped(
            f"the log of {added} begins {added.log_begin - moved.log_begin:,} bytes later than that of "
            f"{moved}: start it again on an empty store"
        )
    say(f"{added} has everything")
    if moved is master:
        request = PromotionRequest(to, master.options.get("brokerRole", ""), fence=True)
        await promote(admin, request, OldMaster(admin), say)
    return Move(found.name, moved.at.address, to, moved is master)


def _member(found: GroupSurvey, address: str) -> Replica:
    return next(one for one in found.members if one.at.address == address)


def _check(found: GroupSurvey, master: Replica, moved: Replica, to: str) -> None:
    name = quote(found.name)
    if master.options.get("enableControllerMode") == "true":
        raise Stopped(
            f"a controller decides the roles of {found.name}: start a broker at {to} with its "
            f"controllerAddr, wait until it is in sync (orbitmq admin controller groups {name}), make "
            f"it master if need be (controller elect {name} ID), stop {moved.at.address}, and have the "
            f"controller forget it (controller clean {name} --id ID)"
        )
    if master.make != ORBITMQ:
        raise Stopped(f"{master} is not OrbitMQ's: `orbitmq migrate plan {name}` says how it is moved")


async def _added(
    admin: Admin, found: GroupSurvey, master: Replica, to: str, say: Callable[[str], None], deadline: float
) -> Replica:
    """The member at the new address, once name servers know it."""
    command = ""
    while True:
        added = next((one for one in found.members if one.at.address == to), None)
        if added is not None and not added.error:
            return added
        if not command:
            command = slave_command(
                found, master, free_id(found), ";".join(admin.namesrv), parse_address(to)[0],
                listenPort=str(parse_address(to)[1]),
            )  # fmt: skip
            say(f"start the new broker now, with other options as in the file of its master:\n  {command}")
        if time.monotonic() > deadline:
            raise NoBroker(f"no broker of {found.name} at {to} was started in time; nothing was changed")
        await asyncio.sleep(LOOK_SECONDS)
        found = await survey_one(admin, found.name)
