"""The change of a group's master from one make to the other, step by step, each of which may be done again.

Nothing that was acknowledged is lost, because the order is: the master takes no more messages; the slave has
all of its log and the offsets; the master is gone; only then the slave is promoted.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, InitVar, dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.brokers import update_broker_config
from orbitmq.admin.migration.checks import BLOCKED, check_group, target_of
from orbitmq.admin.migration.journal import MigrationJournal, Phase, SwitchRecord
from orbitmq.admin.replication.old_master import LOOK_SECONDS, Confirm, OldMaster, Stopped
from orbitmq.admin.replication.survey import (
    MAKES,
    ORBITMQ,
    Replica,
    lag_of,
    queue_ends,
    read_member,
    survey_one,
    topics_of,
)
from orbitmq.net.probing import Reach
from orbitmq.protocol.bodies.route import ClusterInfo
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.route import (
    AddWritePermOfBroker,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    WipeWritePermOfBroker,
)

READ_ONLY = "4"
NEAR_BYTES = 1 << 20
LEVEL_LOOKS = 3
"""So many looks in a row have to find the slave level."""
READ_AND_WRITE = 6


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Longest waits in seconds."""

    drain: float = 35.0
    """Clients look routes up every 30 s."""
    level: float = 600.0
    stop: float = 600.0
    serve: float = 120.0


@dataclass(eq=False, repr=False)
class Switch:
    """One switch. `say(line)` prints each step; `stop_master` and `start_master`, where given, run the user's
    commands. `confirm(question)` asks the operator; without it nothing can be confirmed.
    """

    _admin: Admin
    _journal: MigrationJournal
    _say: Callable[[str], None]
    _: KW_ONLY
    timeouts: Timeouts
    stop_master: Callable[[], Awaitable[None]] | None = None
    start_master: Callable[[], Awaitable[None]] | None = None
    confirm: InitVar[Confirm | None] = None

    def __post_init__(self, confirm: Confirm | None) -> None:
        self._old_master = OldMaster(self._admin, confirm)

    async def run(self, group: str, to: str) -> SwitchRecord:
        """Does what is left to do. Raises Stopped, BadJournal, NetError, BrokerRefused."""
        record = self._journal.read(group)
        if record is None or record.phase is Phase.DONE:
            record = await self._begin(group, to)
        elif record.to != to:
            raise Stopped(
                f"a switch of {group} to {MAKES[record.to]} has begun: end it, or take it back by --undo"
            )
        else:
            self._say(f"going on with a switch that was {record.phase.name.lower()}")
        for phase, step in (
            (Phase.DRAINING, self._drain),
            (Phase.FENCED, self._fence),
            (Phase.LEVEL, self._level),
            (Phase.STOPPED, self._await_stop),
            (Phase.PROMOTED, self._promote),
            (Phase.DONE, self._verify),
        ):
            if record.phase < phase:
                await step(record)
                record.phase = phase
                self._journal.write(record)
        return record

    async def undo(self, group: str) -> None:
        """Lets the old master take messages again. Raises Stopped once another one may be master."""
        record = self._journal.read(group)
        if record is None or record.phase is Phase.DONE:
            raise Stopped(f"no switch of {group} has begun")
        if record.phase >= Phase.STOPPED:
            raise Stopped(
                f"{record.master} was gone, and {record.target} may be master: let the switch go on. "
                "The way back is another switch"
            )
        await update_broker_config(self._admin, record.master, {"brokerPermission": record.permission})
        await self._write_again(record)
        self._journal.forget(group)
        self._say(f"{record.master} takes messages again")

    # The steps.

    async def _begin(self, group: str, to: str) -> SwitchRecord:
        found = await survey_one(self._admin, group)
        master = found.master
        rows = await check_group(self._admin, found, to)
        blocked = [f"{row.subject}: {row.detail}" for row in rows if row.state == BLOCKED]
        if blocked:
            raise Stopped(f"{group} cannot be switched: {'; '.join(blocked)}")
        if master is not None and master.make == to:
            raise Stopped(f"{master} is the master of {group} already")
        target = target_of(found, to)
        if master is None or target is None:
            raise Stopped(
                f"{group} has no slave of {MAKES[to]}: `orbitmq migrate plan` says how one is started"
            )
        record = SwitchRecord(
            group,
            to,
            master.at.address,
            target.at.address,
            master.options.get("brokerRole", "ASYNC_MASTER"),
            master.options.get("brokerPermission", str(READ_AND_WRITE)),
            await self._perms(group, await topics_of(self._admin, master.at.address)),
            log_end=master.log_end,
        )
        self._journal.write(record)
        self._say(f"{group}: {target} is to take the place of {master}")
        return record

    async def _drain(self, record: SwitchRecord) -> None:
        """Clients learn from the name servers to send elsewhere."""
        await self._near(record)
        others = [one for one in await self._admin.masters() if one.name != record.group]
        for address in self._admin.namesrv:
            await self._admin.call(address, WipeWritePermOfBroker(record.group))
        if not others:
            self._say("no other group takes messages: producers wait, or fail, until the switch is done")
            return
        self._say(f"clients turn to {', '.join(one.name for one in others)} within {self.timeouts.drain:g} s")
        await asyncio.sleep(self.timeouts.drain)

    async def _near(self, record: SwitchRecord) -> None:
        """The slave has nearly all while the master still serves: what is left takes seconds, not minutes."""
        deadline = time.monotonic() + self.timeouts.level
        while True:
            master, target = await self._both(record)
            lacking = await topics_of(self._admin, record.master) - await topics_of(
                self._admin, record.target
            )
            gap = master.log_end - target.log_end
            if gap <= NEAR_BYTES and not lacking:
                return
            if time.monotonic() > deadline:
                raise Stopped(
                    f"{record.target} lacks {gap:,} bytes and {len(lacking):,} topics after "
                    f"{self.timeouts.level:g} s: look at its log. Nothing was changed"
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def _fence(self, record: SwitchRecord) -> None:
        """The master refuses whoever still sends; what it says from now on is all there is."""
        await update_broker_config(self._admin, record.master, {"brokerPermission": READ_ONLY})
        self._say(f"{record.master} takes no more messages")

    async def _level(self, record: SwitchRecord) -> None:
        """The slave gets the rest of the log, and the offsets."""
        deadline = time.monotonic() + self.timeouts.level
        level = 0
        while level < LEVEL_LOOKS:
            master, target = await self._both(record)
            why = await lag_of(self._admin, master, target)
            if why and time.monotonic() > deadline:
                raise Stopped(
                    f"{record.target} is not level after {self.timeouts.level:g} s: {why}. Run the "
                    "command again to wait on, or with --undo to let the master take messages again"
                )
            level = 0 if why else level + 1
            # It may grow by what the master does on its own (delayed messages): that was not promised.
            record.log_end = master.log_end
            await asyncio.sleep(LOOK_SECONDS)
        topics = await topics_of(self._admin, record.master)
        ends = await queue_ends(self._admin, record.master, topics)
        record.ends = {
            topic: {str(queue): end for queue, (_, end) in queues.items()} for topic, queues in ends.items()
        }
        self._say(
            f"{record.target} has all of it: {record.log_end:,} bytes, {len(topics):,} topics, the offsets"
        )

    async def _both(self, record: SwitchRecord) -> tuple[Replica, Replica]:
        found = [
            await read_member(self._admin, BrokerAt("", record.group, number, address))
            for number, address in enumerate((record.master, record.target))
        ]
        for member in found:
            if member.error:
                raise Stopped(f"{member.at.address} {member.error}. Run the command again once it answers")
        return found[0], found[1]

    async def _await_stop(self, record: SwitchRecord) -> None:
        """The master is stopped, by the user's command or by hand."""
        deadline = time.monotonic() + self.timeouts.stop
        look = self._old_master.look
        if self.stop_master is not None and await look(record.master, math.inf) is not Reach.REFUSED:
            await self.stop_master()
        was_noted = False
        while await look(record.master, deadline) is not Reach.REFUSED:
            if time.monotonic() > deadline:
                raise Stopped(
                    f"{record.master} still answers after {self.timeouts.stop:g} s. Stop it and run this "
                    "again, or give --undo to let it take messages again"
                )
            if not was_noted:
                self._say(f"stop {record.master} now, in order; waiting until it is gone")
                was_noted = True
            # The broker's own messages (delays, timers) still go into its log.
            with_log = await read_member(self._admin, BrokerAt("", record.group, 0, record.master))
            record.log_end = max(record.log_end, with_log.log_end)
            await asyncio.sleep(LOOK_SECONDS)
        target = await read_member(self._admin, BrokerAt("", record.group, 1, record.target))
        if target.error:
            raise Stopped(f"{record.target} {target.error}. Run the command again once it answers")
        if target.log_end < record.log_end:
            raise Stopped(
                f"{record.target} lacks {record.log_end - target.log_end:,} bytes that {record.master} has "
                "written since: start that again as it was, and run the command again"
            )
        self._say(f"{record.master} is gone")

    async def _promote(self, record: SwitchRecord) -> None:
        """The slave becomes the master of the group."""
        if not await self._old_master.is_gone(record.master):
            raise Stopped(
                f"{record.master} is back: two masters would take messages. Stop it, and run this again"
            )
        if record.to == ORBITMQ:
            role = record.broker_role if record.broker_role != "SLAVE" else "ASYNC_MASTER"
            target = await read_member(self._admin, BrokerAt("", record.group, 1, record.target))
            if target.error:
                raise Stopped(f"{record.target} {target.error}. Run the command again once it answers")
            if target.options.get("brokerRole") != role:
                await update_broker_config(self._admin, record.target, {"brokerRole": role})
            self._say(f"{record.target} is {role}")
        elif self.start_master is not None:
            await self.start_master()
        else:
            self._say(
                f"start the broker of {record.target} again now, with brokerRole={record.broker_role} and "
                "brokerId=0; waiting until it is master"
            )
        await self._wait_until_master(record)

    async def _wait_until_master(self, record: SwitchRecord) -> None:
        limit = self.timeouts.serve if record.to == ORBITMQ else self.timeouts.stop
        deadline = time.monotonic() + limit
        while True:
            addresses = [self._master_in(info, record.group) for info in await self._clusters()]
            if all(address == record.target for address in addresses):
                return
            if time.monotonic() > deadline:
                raise Stopped(
                    f"after {limit:g} s the name servers name {', '.join(map(str, addresses))} as the "
                    f"master of {record.group}, and not of {record.target}. Run the command again"
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def _clusters(self) -> list[ClusterInfo]:
        return [
            (await self._admin.call(address, GetBrokerClusterInfo())).body for address in self._admin.namesrv
        ]

    def _master_in(self, info: ClusterInfo, group: str) -> str | None:
        data = (info.broker_addr_table or {}).get(group)
        return (data.broker_addrs or {}).get(0) if data is not None else None

    async def _verify(self, record: SwitchRecord) -> None:
        """Routes are as they were, and every queue continues where it ended."""
        await self._write_again(record)
        found = await queue_ends(self._admin, record.target, set(record.ends))
        for topic, queues in record.ends.items():
            for queue, end in queues.items():
                here = found.get(topic, {}).get(int(queue), (0, 0))[1]
                if here < end:
                    raise Stopped(
                        f"queue {queue} of {topic} ends at {here:,} at {record.target}, and ended at {end:,} "
                        f"at {record.master}: keep the old store, and look at the log of {record.target}"
                    )
        self._say(f"{record.target} serves {record.group}: {len(record.ends):,} topics, no queue is shorter")

    # Routes.

    async def _perms(self, group: str, topics: set[str], address: str = "") -> dict[str, int]:
        """The permission of each topic of a group in the routes, as a name server has it."""
        asked = address or self._admin.namesrv[0]

        async def ask(topic: str) -> tuple[str, int]:
            try:
                route = (await self._admin.call(asked, GetRouteinfoByTopic(topic))).body
            except BrokerRefused:
                return topic, -1
            return topic, next((one.perm for one in route.queue_datas if one.broker_name == group), -1)

        return {topic: perm for topic, perm in await self._admin.each(sorted(topics), ask) if perm >= 0}

    async def _write_again(self, record: SwitchRecord) -> None:
        """Routes have their permissions again. A broker's next registration may bring them by itself."""
        deadline = time.monotonic() + self.timeouts.serve
        tried = False
        while True:
            differing = {
                f"{topic} at {address}": perm
                for address in self._admin.namesrv
                for topic, perm in (await self._perms(record.group, set(record.perms), address)).items()
                if perm != record.perms[topic]
            }
            if not differing:
                return
            if time.monotonic() > deadline:
                raise Stopped(
                    f"the routes of {', '.join(sorted(differing)[:5])} have another permission than before; "
                    "`orbitmq admin topic perm` sets it"
                )
            if not tried and all(perm == READ_AND_WRITE for perm in record.perms.values()):
                for address in self._admin.namesrv:
                    await self._admin.call(address, AddWritePermOfBroker(record.group))
            tried = True
            await asyncio.sleep(LOOK_SECONDS)
