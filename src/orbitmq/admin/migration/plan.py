"""The steps of a migration, for every group as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.admin.migration.checks import DONE, OPEN, target_of
from orbitmq.admin.migration.survey import APACHE, MAKES, ORBITMQ, GroupSurvey, Member

TAKEN_OVER = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": "6000000",
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "maxMessageSize": str(4 << 20),
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "false",
    "timerWheelEnable": "true",
    "transactionTimeOut": "6000",
    "flushDiskType": "ASYNC_FLUSH",
    "authenticationEnabled": "false",
    "authorizationEnabled": "false",
}
"""Options that a broker takes over from the one whose place it takes, with their defaults."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `command` is to be given by the reader, where it is not about their own machines."""

    group: str
    number: int
    state: str
    what: str
    command: str = ""


def plan_group(found: GroupSurvey, to: str, namesrv: str) -> list[Step]:
    """The steps of a group, in their order."""
    return [Step(found.name, number, *row) for number, row in enumerate(_steps(found, to, namesrv), start=1)]


def _steps(found: GroupSurvey, to: str, namesrv: str) -> Iterator[tuple[str, str, str]]:
    master = found.master
    other = ORBITMQ if to == APACHE else APACHE
    how = f"{found.name}{_to(to)} --namesrv '{namesrv}'"
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
    if olds:
        return f"stop the slave {olds[0]}, and start {MAKES[to]} on its store, as the same slave"
    return f"start a slave of {MAKES[to]}: the group has no slave yet, whose store it could take over"


def _credentials(master: Member, to: str) -> str:
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


def _start(found: GroupSurvey, master: Member, to: str, namesrv: str) -> str:
    """The command of a new slave, or the lines of its broker.conf."""
    olds = [one for one in found.slaves() if one.make != to]
    used = {one.at.broker_id for one in found.members}
    broker_id = olds[0].at.broker_id if olds else next(n for n in range(1, 100) if n not in used)
    options = {
        "brokerClusterName": master.at.cluster,
        "brokerName": found.name,
        "brokerId": str(broker_id),
        "brokerRole": "SLAVE",
        **{
            name: master.options[name]
            for name, usual in TAKEN_OVER.items()
            if master.options.get(name, usual) != usual
        },
    }
    if to == APACHE:
        lines = {**options, "namesrvAddr": namesrv}
        return "broker.conf: " + " ".join(f"{name}={value}" for name, value in lines.items())
    broker_id_text = options.pop("brokerId")
    sets = " ".join(
        f"--set '{name}={value}'" if " " in value else f"--set {name}={value}"
        for name, value in options.items()
    )
    start = f"orbitmq broker --namesrv '{namesrv}' --broker-id {broker_id_text}"
    return f"{start} {sets} --data-dir DIR --listen 0.0.0.0"
