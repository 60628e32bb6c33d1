"""A slave that acts for its master while that is away (enableSlaveActingMaster), and a master's return.

Name servers know which member of a group has the smallest id, and a slave asks them every second. While it
is the one, clients read, lock and commit at it as they would at the master. It stores nothing itself: delayed
messages and timer messages that are due go to another master of their topic, by a send like any producer's,
and so do half messages that are old enough for their producers to be asked (enableRemoteEscape). The master
that comes back delivers nothing of before, and decides nothing of it, until the slave has stopped and has
said how far it got.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import replace
from ssl import SSLContext

from orbitmq.broker.broker import Broker
from orbitmq.broker.mastership.escape import Escape, escaping, leaving, moved
from orbitmq.broker.role.acting import ActingStep, StandIn
from orbitmq.broker.role.role import Role
from orbitmq.broker.stats.passed_over import AGAIN
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.offset import ActedFor
from orbitmq.protocol.bodies.route import MASTER_ID, TopicRouteData
from orbitmq.protocol.codes import PERM_WRITE, ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError, TopicNotExist
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.offset import GetAllDelayOffset
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.server.tasks.registrar import Registrar
from orbitmq.server.tasks.timer_runner import TimerRunner
from orbitmq.store import PendingMessage
from orbitmq.store.timer.check_point import TimerMark

log = logging.getLogger(__name__)

DELIVERY_STEP_SECONDS = 0.1
ENDING_MS = 10_000
"""A master that comes back waits so long for a slave to end what it does."""
FINISHING_MS = ENDING_MS // 2
"""A slave sends on for so long what is due at the time at which it has to stop."""
READ_SECONDS = 0.01
"""Time after which it looks again if the disk has given what is due."""
TIMEOUT_MS = 3_000
ROUTE_MS = 1_000
MAX_ROUTES_KEPT = 1_000
RETURN_PERIODS = 3
"""So many periods of its look at the group a slave has to notice that its master is back."""
ESCAPE_GROUP = "CID_RMQ_SYS_INNER_ESCAPE"
KIND = "acting slave"
MOST_LEFT = 10_000
"""Messages that no other master takes and that are passed over; beyond, all behind them wait with them."""
MOST_REFUSALS = 5
"""Refusals after which one counts as passed over: a reason that may be over in a moment is not."""
LEFT_MS = 5_000
"""They are tried again after so long."""
_FOR_A_MOMENT = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
    }
)


class CannotLeave(OrbitError):
    """No other master takes a message."""


class ActingMaster:
    """Runs until its task ends, on every member of a group that has the option."""

    def __init__(
        self,
        broker: Broker,
        registrar: Registrar,
        name_servers: list[str],
        now: Callable[[], int],
        *,
        reopen_timers: Callable[[TimerMark | None], Awaitable[None]],
        after_step: Callable[[int], None],
        executor: Executor,
        ssl: SSLContext | None = None,
    ) -> None:
        """`reopen_timers(None)` has the store open the files of timers again, `executor` reads the disk."""
        self._broker = broker
        self._registrar = registrar
        self._now = now
        self._reopen_timers = reopen_timers
        self._after_step = after_step
        self._executor = executor
        self._escape: Escape | None = None
        """The store of due timers while this slave works for its master."""
        self._timers: TimerRunner | None = None
        self._stand_in = StandIn(broker.settings, broker.identity, broker.role)
        self._idle = asyncio.Event()
        """This slave does no work of its master."""
        self._idle.set()
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(broker.settings))
        self._names = NameServers(name_servers, self._pool, TIMEOUT_MS)
        self._said = ""
        self._turn = 0
        self._refusals = 0
        """Refusals of the message that was tried last."""
        self._left_tried_ms = 0
        self._routes: dict[str, tuple[int, TopicRouteData]] = {}
        """Topic -> when it was asked for, and the answer."""

    async def run(self) -> None:
        """Beats, looks at the group, and delivers while it acts."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat(), name="heartbeats")
                tasks.create_task(self._resume_as_master(), name="return as master")
                tasks.create_task(self._watch_group(), name="members of the group")
                tasks.create_task(self._deliver(), name="deliver for the master")
        finally:
            await self._pool.close()

    async def _beat(self) -> None:
        while True:
            await self._registrar.send_heartbeats()
            await asyncio.sleep(self._broker.settings.broker_heartbeat_interval / 1000)

    async def _watch_group(self) -> None:
        period = self._broker.settings.sync_broker_member_group_period / 1000
        while True:
            await asyncio.sleep(period)
            self._stand_in.group_heard(await self._registrar.members())

    async def leave(self) -> None:
        """Returns once this slave has ended its master's work, and knows how far it got."""
        self._stand_in.leave()
        await self._idle.wait()
        self._stand_in.left()

    # A slave that acts.

    async def _deliver(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(DELIVERY_STEP_SECONDS)
            try:
                await self._carry_out(self._stand_in.next_step(has_master=broker.replication.has_master))
            except (OrbitError, OSError) as error:
                self._complain(error)
            except Exception:
                log.exception("work for the master of %s failed", broker.identity.name)

    async def _carry_out(self, step: ActingStep) -> None:
        broker = self._broker
        match step:
            case ActingStep.ACT:
                log.warning("the master of %s is away: this slave acts for it", broker.identity.name)
                broker.role.act(is_acting=True)
            case ActingStep.BEGIN_WORK:
                await self._begin_work()
            case ActingStep.WORK:
                await self._work()
            case ActingStep.END_WORK:
                await self._end_work()
            case ActingStep.STOP:
                broker.role.act(is_acting=False)
                log.info("this slave does not act for its master any more")
            case ActingStep.REST:
                pass

    def _complain(self, error: Exception) -> None:
        if str(error) != self._said:
            log.warning(
                "what is due for the master of %s cannot be sent on: %s", self._broker.identity.name, error
            )
        self._said = str(error)

    def _may_deliver(self) -> bool:
        return self._stand_in.may_work(has_master=self._broker.replication.has_master)

    async def _work(self) -> None:
        """A round of what the master would do now. Raises OrbitError where a message cannot be sent on."""
        failed: OrbitError | None = None
        # One kind that finds no master is not to hold up the others.
        steps = (self._deliver_due, self._deliver_timers, self._revive, self._move_halves, self._try_left)
        for step in steps:
            try:
                while self._may_deliver() and await step():
                    pass
            except OrbitError as error:
                failed = error
        if failed is not None:
            raise failed
        self._said = ""

    async def _begin_work(self) -> None:
        broker = self._broker
        self._escape = escape = Escape(broker.acting.take_due_pop)
        self._idle.clear()
        broker.role.work_for_master(works=True)
        # A master that comes back from here on waits for the end.
        broker.delay.note_acted(replace(broker.delay.acted or ActedFor(), is_open=True), soon=False)
        try:
            await self._reopen_timers(None)
            for _ in broker.acting.begin(escape, self._now()):
                await asyncio.sleep(0)
        except Exception:
            broker.acting.let_go()
            self._rest()
            raise
        self._timers = TimerRunner(broker.timer, self._now, self._after_step, self._executor)

    async def _end_work(self) -> None:
        """Accounts for the copies that were sent, and publishes how far this broker got."""
        broker, timers = self._broker, self._timers
        try:
            if timers is not None:
                await self._finish_due_time(timers)
                timers.stop()
            broker.acting.end()
        finally:
            self._rest()

    def _rest(self) -> None:
        self._timers = self._escape = None
        self._broker.role.work_for_master(works=False)
        self._idle.set()

    async def _finish_due_time(self, timers: TimerRunner) -> None:
        """Sends on the rest of the timer messages that are due at one time: the master is told a time up to
        which it delivers nothing again.
        """
        escape, end_ms = self._escape, self._now() + FINISHING_MS
        try:
            timers.run(self._now())
            while escape is not None and self._broker.timer.is_amid_due_time and self._now() < end_ms:
                if not escape.outbox:
                    await asyncio.sleep(READ_SECONDS)
                while escape.outbox:
                    await self._send_timer(escape)
                timers.run(self._now())
        except (OrbitError, OSError) as error:
            self._complain(error)

    async def _deliver_timers(self) -> bool:
        """Sends on timer messages that are due. True if there were any. Raises OrbitError."""
        escape, timers = self._escape, self._timers
        if escape is None or timers is None:
            return False
        timers.run(self._now())
        found = bool(escape.outbox)
        while escape.outbox and self._may_deliver():
            await self._send_timer(escape)
        if found:
            timers.run(self._now())  # it takes account of what has left
            self._broker.acting.note(soon=True)
        return found

    async def _send_timer(self, escape: Escape) -> None:
        message = escape.outbox[0]
        await self._send_or_leave(message)
        escape.sent(message)

    async def _send_or_leave(self, message: PendingMessage, group: str = ESCAPE_GROUP) -> None:
        """Sends a message on, or notes that it is still its master's. Raises OrbitError."""
        acted = self._broker.delay.acted
        try:
            await self._send(message, group)
        except CannotLeave as error:
            if acted is None or message.copy_of is None or len(acted.left) >= MOST_LEFT:
                raise
            if message.copy_of not in acted.left:
                acted.left.append(message.copy_of)
                self._broker.passed.note(KIND, AGAIN, f"a message for {message.topic}", str(error))
            self._broker.delay.note_acted(acted, soon=True)

    async def _try_left(self) -> bool:
        """Tries again what no other master took. True if one does now. Raises OrbitError."""
        broker, now = self._broker, self._now()
        acted = broker.delay.acted
        if acted is None or now < self._left_tried_ms + LEFT_MS:
            return False
        self._left_tried_ms = now
        if broker.acting.reviver is not None:
            broker.acting.reviver.try_left()
        for offset in list(acted.left):
            data = broker.store.record_at(offset)
            try:
                found = None if data is None else leaving(decode_record(data), now)
                if found is not None:
                    await self._send(*found)
                    acted.left.remove(offset)
                    broker.delay.note_acted(acted, soon=True)
            except (BadRecord, CannotLeave):
                continue
            if not self._may_deliver():
                break
        return False

    async def _revive(self) -> bool:
        """Sends on copies of messages that were popped and not acknowledged. True if there were any. Raises
        OrbitError.
        """
        broker = self._broker
        found = broker.acting.revive(self._now())
        reviver = broker.acting.reviver
        while reviver is not None and reviver.outbox:
            copy = reviver.outbox[0]
            # Messages that were popped together leave together: the master is told of whole check points.
            if not copy.is_next and not self._may_deliver():
                break
            try:
                await self._send(copy.message, like=copy.topic)
                reviver.sent(self._now())
            except CannotLeave as error:
                reviver.leave()
                broker.passed.note(KIND, AGAIN, f"a popped message of {copy.topic}", str(error))
            broker.acting.note(soon=True)
        broker.acting.note()
        return found

    async def _move_halves(self) -> bool:
        """Moves the next half message whose producers are to be asked. True if there was one. Raises
        OrbitError.

        Another master asks. The order is that of the half messages, so that one number says how far it got.
        """
        broker = self._broker
        transactions, acted = broker.transactions, broker.delay.acted
        if acted is None:
            return False
        offset = transactions.window.next_open(acted.halves_to, transactions.end)
        half = None if offset is None else transactions.half(offset)
        if offset is None:
            return False
        if half is not None:
            if half.age_ms(self._now()) < broker.settings.transaction_time_out:
                return False
            await self._send_or_leave(moved(half), half.group)
        acted.halves_to = offset + 1
        broker.delay.note_acted(acted, soon=True)
        return True

    async def _deliver_due(self) -> bool:
        """Sends on the next message of each level that is due. True if there was one. Raises OrbitError."""
        delay = self._broker.delay
        found = False
        for level, position, message in list(delay.due_elsewhere(self._now())):
            if message is not None:
                await self._send_or_leave(message)
            delay.delivered_elsewhere(level, position)
            found = True
            if not self._may_deliver():
                break
        return found

    async def _send(self, message: PendingMessage, group: str = ESCAPE_GROUP, like: str = "") -> None:
        """Has another master of the message's topic store it, as sent by a group; with `like` one of that
        topic, which makes the message's own. Raises OrbitError, CannotLeave if none takes it.
        """
        try:
            body = await self._route(like or message.topic)
        except TopicNotExist as error:
            raise CannotLeave(str(error)) from None
        writable = {
            data.broker_name: data.write_queue_nums
            for data in body.queue_datas or ()
            if data.perm & PERM_WRITE and data.write_queue_nums > 0
        }
        masters = [
            (data.broker_name, (data.broker_addrs or {})[MASTER_ID])
            for data in body.broker_datas or ()
            if data.broker_name != self._broker.identity.name
            and data.broker_name in writable
            and MASTER_ID in (data.broker_addrs or ())
        ]
        if not masters:
            raise CannotLeave(f"no other broker takes messages of {message.topic}")
        self._turn += 1
        name, address = masters[self._turn % len(masters)]
        request = SendMessageV2(
            producer_group=group or ESCAPE_GROUP,
            topic=message.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=message.queue_id if message.queue_id < writable[name] else 0,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=escaping(message.properties).decode("utf-8", "replace"),
            reconsume_times=message.reconsume_times,
            broker_name=name,
            body=bytes(message.body),
        )
        try:
            await self._pool.call(address, request, TIMEOUT_MS)
        except BrokerRefused as error:
            self._refusals += 1
            if error.code in _FOR_A_MOMENT and self._refusals < MOST_REFUSALS:
                raise
            self._refusals = 0
            raise CannotLeave(str(error)) from None
        self._refusals = 0

    async def _route(self, topic: str) -> TopicRouteData:
        """The route of a topic, asked again every second. Raises OrbitError."""
        known_ms, known = self._routes.get(topic, (0, None))
        if known is not None and self._now() - known_ms < ROUTE_MS:
            return known
        body = (await self._names.ask(GetRouteinfoByTopic(topic))).body
        if len(self._routes) >= MAX_ROUTES_KEPT:
            self._routes.clear()
        self._routes[topic] = self._now(), body
        return body

    # A master that comes back.

    async def _resume_as_master(self) -> None:
        """Lets deliveries begin once a slave that acted has stopped and has published how far it got."""
        broker = self._broker
        try:
            if broker.role.current is Role.MASTER:
                await self._adopt()
        except (OrbitError, OSError) as error:
            log.warning("the slave that acted for this master does not say how far it got: %s", error)
        finally:
            broker.mastership.resume()

    async def _adopt(self) -> None:
        broker = self._broker
        slaves = {key: value for key, value in (await self._registrar.members() or {}).items() if key > 0}
        if not slaves:
            return
        # The slave asks the name servers where this master has registered just now.
        await asyncio.sleep(RETURN_PERIODS * broker.settings.sync_broker_member_group_period / 1000)
        address = slaves[min(slaves)]
        acted = await self._fetch_progress(address)
        late = self._now() + ENDING_MS
        while acted is not None and acted.is_open and self._now() < late:
            await asyncio.sleep(DELIVERY_STEP_SECONDS)
            acted = await self._fetch_progress(address)
        if acted is not None:
            broker.mastership.adopt(acted, self._now())

    async def _fetch_progress(self, address: str) -> ActedFor | None:
        body = (await self._pool.call(address, GetAllDelayOffset(), TIMEOUT_MS)).body
        return self._broker.delay.adopt(bytes(body or b"").decode())
