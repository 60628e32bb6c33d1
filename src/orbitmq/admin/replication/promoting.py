"""The promotion of a slave by hand, in a group whose roles no controller decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from shlex import quote

from orbitmq.admin.admin import Admin, BrokerAt, NoBroker
from orbitmq.admin.brokers import update_broker_config
from orbitmq.admin.replication.new_slave import free_id
from orbitmq.admin.replication.old_master import LOOK_SECONDS, OldMaster, Stopped
from orbitmq.admin.replication.status import ha_status
from orbitmq.admin.replication.survey import ORBITMQ, GroupSurvey, Replica, lag_of, read_member, survey_one
from orbitmq.protocol.bodies.ha import HARuntimeInfo
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.route import GetBrokerClusterInfo

ASYNC_MASTER, SYNC_MASTER = "ASYNC_MASTER", "SYNC_MASTER"
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PromotionRequest:
    """A promotion that is asked for."""

    broker: str
    """A group, whose slave with most of the log is meant, or `host:port` of a slave."""
    role: str = ""
    """The new master's brokerRole; empty: that of the old master if it says it, else ASYNC_MASTER."""
    old_master: str = ""
    """`host:port` of the old master, where no name server knows it any more."""
    fence: bool = False
    """A master that lives is made a slave first."""
    wait_seconds: float = WAIT_SECONDS
    """Longest wait for a slave to have everything, and for name servers to know its new role."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """The result of a promotion."""

    group: str
    master: str
    role: str
    before: tuple[str, ...]
    """Addresses of the old master; empty if it was unknown, or if the broker was master already."""
    lacked_bytes: int = 0
    """Bytes that the old master is known to have had on its disk, and the new one lacks."""


async def promote(
    admin: Admin, request: PromotionRequest, old_master: OldMaster, say: Callable[[str], None]
) -> Promotion:
    """Makes a slave the master of its group; `say(line)` prints each step.

    Raises Stopped before anything is changed if two masters could come of it, or if another slave has more of
    the log. Raises NoBroker, NetError, BrokerRefused.
    """
    found, target = await _target_of(admin, request.broker)
    if (said := await _role(admin, target)) is not None and said.master:
        return Promotion(found.name, target.at.address, target.options.get("brokerRole", ""), ())
    _check(found, target)
    addresses, ha_address = await _old_masters(admin, found, target, said, request.old_master)
    if not addresses and not ha_address:
        await old_master.confirm_stopped("", f"nobody knows the old master of {found.name} (--old-master)")
    role = request.role
    for address in addresses:
        if await old_master.is_gone(address):
            say(f"{address} is gone")
            continue
        living = await read_member(admin, BrokerAt("", found.name, 0, address))
        if not living.error and (its := await _role(admin, living)) is not None and not its.master:
            say(f"{address} is a slave already")
            continue
        role = role or living.options.get("brokerRole", "")
        if not request.fence or living.error:
            raise Stopped(_two_masters(found.name, living))
        await _fence(admin, found, living, target, request.wait_seconds, say)
    # Only where no name server named the master does its port for slaves tell whether it lives.
    if not addresses and ha_address and not await old_master.is_gone(ha_address, asks=False):
        raise Stopped(
            f"the old master of {found.name} still listens at {ha_address}, its port for slaves: stop it, or "
            "name it by --old-master HOST:PORT and give --fence, and run this again"
        )
    role = role if role in (ASYNC_MASTER, SYNC_MASTER) else ASYNC_MASTER
    lacked = _lacked(said)
    if lacked:
        say(f"{target} lacks {lacked:,} bytes that the old master has reported as on its disk")
    _warn(found, target, role, say)
    await update_broker_config(admin, target.at.address, {"brokerRole": role})
    say(
        f"{target} is {role}. The file of its --config says so now; without one, change how it is started, "
        "or it is a slave again after a restart"
    )
    await _until_known(admin, found.name, target.at.address, request.wait_seconds)
    await _check_again(admin, found.name, addresses, target)
    return Promotion(found.name, target.at.address, role, tuple(addresses or [ha_address]), lacked)


async def _target_of(admin: Admin, broker: str) -> tuple[GroupSurvey, Replica]:
    [at, *_] = await admin.brokers(broker=broker)
    found = await survey_one(admin, at.name)
    if broker == at.address:
        meant = next((one for one in found.members if one.at.address == broker), None)
    else:
        slaves = sorted(found.slaves(), key=lambda one: -one.log_end)
        meant = next(iter([*slaves, *([found.master] if found.master is not None else [])]), None)
    if meant is None:
        raise NoBroker(f"{broker} has no slave: start one, or start its old master again")
    if meant.error:
        raise Stopped(f"{meant.at.address} {meant.error}. Run this again once it, or a slave, answers")
    return found, meant


def _check(found: GroupSurvey, target: Replica) -> None:
    """Raises Stopped for a member that cannot be, or is not to be, the master."""
    if target.options.get("enableControllerMode") == "true":
        raise Stopped(
            f"a controller decides the roles of {found.name}: `orbitmq admin controller elect "
            f"{quote(found.name)} {target.at.broker_id}` makes this broker its master"
        )
    if target.make != ORBITMQ:
        raise Stopped(
            f"{target} is not OrbitMQ's, and changes its role only at a start: stop the old master for good, "
            f"and start {target.at.address} again with brokerRole=ASYNC_MASTER and brokerId=0"
        )
    for other in found.slaves():
        if other.log_end > target.log_end:
            raise Stopped(
                f"the slave {other.at.address} has {other.log_end - target.log_end:,} bytes more of the log "
                f"than {target.at.address}: promote that one, or stop it if its messages may be lost"
            )


async def _role(admin: Admin, member: Replica) -> HARuntimeInfo | None:
    said = await ha_status(admin, member.at)
    return said if isinstance(said, HARuntimeInfo) else None


async def _old_masters(
    admin: Admin, found: GroupSurvey, target: Replica, said: HARuntimeInfo | None, given: str
) -> tuple[list[str], str]:
    """Addresses at which a master may run, by the operator and all name servers; and that of its HA port, by
    the slave.
    """
    infos = []
    for server in admin.namesrv:
        try:
            infos.append((await admin.call(server, GetBrokerClusterInfo())).body)
        except OrbitError as error:
            raise Stopped(
                f"the name server {server} does not answer, and may know another master of {found.name}: "
                f"start it, or leave it out of --namesrv ({error})"
            ) from None
    known = [
        (data.broker_addrs or {}).get(0)
        for info in infos
        if (data := (info.broker_addr_table or {}).get(found.name)) is not None
    ]
    addresses = dict.fromkeys(one for one in (given, *known) if one and one != target.at.address)
    return list(addresses), said.ha_client_runtime_info.master_addr if said is not None else ""


def _two_masters(group: str, living: Replica) -> str:
    if living.error:
        return (
            f"{living.at.address} listens, and {living.error}: it may be paused, and would be a second "
            "master when it continues. End its process, and run this again"
        )
    by_hand = (
        "or give --fence, which makes it a slave first"
        if living.make == ORBITMQ
        else f"or use `orbitmq migrate switch {quote(group)}`"
    )
    return f"{living} is alive, and the master of {group}: stop it, {by_hand}"


async def _fence(
    admin: Admin,
    found: GroupSurvey,
    living: Replica,
    target: Replica,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Makes a living master a slave once the other lacks nearly nothing, and waits until it lacks nothing."""
    if living.make != ORBITMQ:
        raise Stopped(_two_masters(found.name, living))
    await until_level(admin, living, target, seconds, "nothing was changed")
    own_id = free_id(found)
    await update_broker_config(admin, living.at.address, {"brokerRole": "SLAVE", "brokerId": str(own_id)})
    say(f"{living.at.address} takes no more messages: it is a slave with id {own_id}")
    try:
        await until_level(admin, living, target, seconds, "the old master is master again")
    except OrbitError:
        role = living.options.get("brokerRole", ASYNC_MASTER)
        await update_broker_config(admin, living.at.address, {"brokerRole": role})
        say(f"{living.at.address} is {role} again")
        raise


async def until_level(admin: Admin, master: Replica, target: Replica, seconds: float, then: str) -> None:
    """Waits until a slave has the log, topics and offsets of its master. Raises Stopped after so long."""
    deadline = time.monotonic() + seconds
    while True:
        both = [await read_member(admin, one.at) for one in (master, target)]
        broken = next((one for one in both if one.error), None)
        why = f"{broken.at.address} {broken.error}" if broken is not None else await lag_of(admin, *both)
        if not why:
            return
        if time.monotonic() > deadline:
            raise Stopped(f"{target} is not level with {master} after {seconds:g} s: {why}; {then}")
        await asyncio.sleep(LOOK_SECONDS)


def _lacked(said: HARuntimeInfo | None) -> int:
    own = said.ha_client_runtime_info if said is not None else None
    return max(0, own.master_flush_offset - own.max_offset) if own is not None else 0


def _warn(found: GroupSurvey, target: Replica, role: str, say: Callable[[str], None]) -> None:
    """Says what the promise of the new master comes to."""
    others = [one for one in found.slaves() if one.at.address != target.at.address]
    needed = int(target.options.get("inSyncReplicas") or 1)
    if role == SYNC_MASTER and needed > 1 + len(others):
        say(
            f"SYNC_MASTER with inSyncReplicas={needed} answers no send with SEND_OK before "
            f"{needed - 1 - len(others)} more of its slaves follow: start one"
        )
    elif role == ASYNC_MASTER:
        say("ASYNC_MASTER acknowledges without waiting for slaves; --role SYNC_MASTER waits")


async def _until_known(admin: Admin, group: str, address: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        late = []
        for server in admin.namesrv:
            info = (await admin.call(server, GetBrokerClusterInfo())).body
            data = (info.broker_addr_table or {}).get(group)
            if data is None or (data.broker_addrs or {}).get(0) != address:
                late.append(server)
        if not late:
            return
        if time.monotonic() > deadline:
            raise Stopped(
                f"{address} is master, and the name servers {', '.join(late)} name another one after "
                f"{seconds:g} s: look at their logs, and see that the old master is stopped"
            )
        await asyncio.sleep(LOOK_SECONDS)


async def _check_again(admin: Admin, group: str, addresses: list[str], target: Replica) -> None:
    """A service manager may have started the old master meanwhile. Raises Stopped."""
    for address in addresses:
        at = replace(target.at, address=address)
        said = await ha_status(admin, at)
        if isinstance(said, HARuntimeInfo) and said.master:
            raise Stopped(
                f"{address} has come back as a master of {group} beside {target.at.address}: stop it at "
                "once, and start it as a slave on an empty store"
            )
