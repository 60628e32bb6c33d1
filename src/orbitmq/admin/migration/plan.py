"""The steps of a migration, for every group as it is now."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.admin.migration.checks import DONE, OPEN, target_of
from orbitmq.admin.replication.new_slave import free_id, slave_command, slave_options
from orbitmq.admin.replication.survey import APACHE, MAKES, ORBITMQ, GroupSurvey, Replica
from orbitmq.options.properties import format_properties


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step. `command` is to be given by the reader, where it is not about their own machines."""

    group: str
    number: int
    state: str
    what: str
    command: str = ""


def plan_group(found: GroupSurvey, to: str, namesrv: str) -> list[PlanStep]:
    """The steps of a group, in their order."""
    return [
        PlanStep(found.name, number, *row) for number, row in enumerate(_steps(found, to, namesrv), start=1)
    ]


def _steps(found: GroupSurvey, to: str, namesrv: str) -> Iterator[tuple[str, str, str]]:
    master = found.master
    other = ORBITMQ if to == APACHE else APACHE
    how = f"{shlex.quote(found.name)}{_to(to)} --namesrv {shlex.quote(namesrv)}"
    if master is None:
        yield OPEN, "the group has no master: bring it back first", ""
        return
    if master.error:
        yield OPEN, f"the plan cannot be made: the master {master.at.address} {master.error}", ""
        return
    if master.make != to:
        target = target_of(found, to)
        if target is not None:
            yield DONE, f"{target} follows as a slave", ""
            gap = master.log_end - target.log_end
            yield (
                (OPEN if gap > 0 else DONE),
                "wait until the slave has everything",
                f"orbitmq migrate check {how}",
            )
        else:
            yield (
                OPEN,
                _new_slave(found, to, other) + _credentials(master, to),
                _start(found, master, to, namesrv),
            )
            yield OPEN, "wait until the slave has everything", f"orbitmq migrate check {how}"
        yield (
            OPEN,
            f"make it the master in place of {master}",
            f"orbitmq migrate switch {how}",
        )
        yield OPEN, f"start a slave of {MAKES[to]} in place of {master}, on an empty store", ""
    else:
        yield DONE, f"{master} is master", ""
    for left in found.slaves(other):
        if master.make == to or target_of(found, to) is not None:
            yield (
                OPEN,
                f"replace the slave {left} by one of {MAKES[to]}: stop it, start that on its store",
                "",
            )
    if master.make == to and not found.slaves(other):
        yield DONE, f"all members are {MAKES[to]}", ""


def _to(to: str) -> str:
    return "" if to == ORBITMQ else f" --to {to}"


def _new_slave(found: GroupSurvey, to: str, other: str) -> str:
    """The step that brings a slave of the make into the group."""
    olds = found.slaves(other)
    # An address of its own, not every one: whoever reaches a listener without access control may do all.
    address = " (ADDRESS: the one at which its master and the clients reach it)" if to == ORBITMQ else ""
    if olds:
        return f"stop the slave {olds[0]}, and start {MAKES[to]} on its store, as the same slave" + address
    return (
        f"start a slave of {MAKES[to]}: the group has no slave yet, whose store it could take over" + address
    )


def _credentials(master: Replica, to: str) -> str:
    """The part of the step about a new slave that says how it gets users and rules."""
    if master.options.get("authenticationEnabled") != "true":
        return ""
    if to == ORBITMQ:
        return (
            "; its options file (--config) gives innerClientAuthenticationCredentials of a super user of the "
            "master, by which it takes over users and rules"
        )
    return (
        "; give it access control and a super user in broker.conf, and copy users and rules to it: `orbitmq "
        "admin user copy`, `orbitmq admin acl copy`"
    )


def _start(found: GroupSurvey, master: Replica, to: str, namesrv: str) -> str:
    """The command of a new slave, or the lines of its broker.conf."""
    olds = [one for one in found.slaves() if one.make != to]
    broker_id = olds[0].at.broker_id if olds else free_id(found)
    if to == APACHE:
        options = slave_options(found, master) | {"brokerId": str(broker_id), "namesrvAddr": namesrv}
        return "broker.conf: " + " ".join(format_properties(options).splitlines())
    # Apache's brokers cannot sign in, so a start with access control is refused without a word on it.
    signs = master.options.get("authenticationEnabled") == "true"
    return slave_command(
        found, master, broker_id, namesrv, **({"haAuthenticationEnable": "false"} if signs else {})
    )
