"""One queue's messages, asked for one answer after the other for as long as the queue is ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.reading import BodyLimits, read_answer
from orbitmq.client.core.routes import address_to_read
from orbitmq.net.errors import Closed, NetError
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, FlowControl, OrbitError
from orbitmq.protocol.requests.pull import COMMITS_OFFSET, MAY_BE_HELD, PullMessage, PullReply

FLOW_CONTROL_PAUSE_MS = 20
FIRST_PAUSE_MS = 50
"""Pause behind the first failure of a queue, for a new master may be there within a tenth of a second. It
doubles with each failure in a row, up to the option `pull_time_delay_when_exception_ms`."""
CARRY_SECONDS, CARRY_SECONDS_BEHIND = 1.0, 0.1
"""Interval at which pulls tell how far their queue is done, and that of a queue with messages waiting."""
IDLE_MS = 120_000
"""A queue that was not asked for so long is given up and taken again: something is stuck."""

FORGOTTEN = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    }
)
"""Answers of a broker that does not know the group's subscription: it was restarted, or is new to us."""


class Limits:
    """Limits of the messages held of one queue."""

    __slots__ = ("max_bytes", "max_count", "max_span")

    def __init__(self, max_count: int, max_bytes: int, max_span: int | None) -> None:
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.max_span = max_span

    def has_room(self, held: ProcessQueue) -> bool:
        """True if more may be pulled."""
        if len(held) > self.max_count or held.size_bytes > self.max_bytes:
            return False
        return self.max_span is None or held.span <= self.max_span


@dataclass(eq=False, repr=False)
class QueuePull:
    """Pulls one queue from `offset` on.

    `deliver(process_queue, messages)` gets what came; `moved(pull, offset)` is called, and pulling ends,
    when the queue does not reach where we are.
    """

    _session: ConsumerContext
    held: ProcessQueue
    next_offset: int
    limits: Limits
    _deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None]
    _moved: Callable[[QueuePull, int], None]

    def __post_init__(self) -> None:
        self._broker_id = MASTER_ID
        self._failures = 0
        self._waits_for_room = False
        self._behind = False
        """True if the broker had more messages than its last answer brought."""
        self._carried = -1
        self._carried_at = 0.0
        queue = self.held.queue
        self._subject = f"pull {queue.topic} {queue.broker_name}:{queue.queue_id}"

    async def run(self) -> None:
        """Pulls until the queue is dropped, or the client closed."""
        session, held = self._session, self.held
        options = session.options
        try:
            while not held.dropped:
                if not self._may_pull():
                    await self._wait_for_room()
                    continue
                if options.pull_interval_ms:
                    await asyncio.sleep(options.pull_interval_ms / 1000)
                held.last_pull_ms = now_ms()
                pause_ms = await self._pull()
                if pause_ms:
                    await asyncio.sleep(pause_ms / 1000)
        except Closed:
            pass
        finally:
            session.instance.forget(self._subject)

    def _may_pull(self) -> bool:
        session = self._session
        if session.paused or self.held.queue in session.paused_queues:
            return False
        return self.limits.has_room(self.held)

    async def _wait_for_room(self) -> None:
        self._waits_for_room = True
        try:
            while not (self.held.dropped or self._may_pull()):
                self.held.room.clear()
                await self.held.room.wait()
        finally:
            self._waits_for_room = False
            self.held.last_pull_ms = now_ms()

    def is_idle(self, now: int) -> bool:
        """True if nothing was asked for so long that something must be stuck.

        Not so while handlers are slow, or the consumer is paused: then nothing is to be asked.
        """
        return not self._waits_for_room and now - self.held.last_pull_ms > IDLE_MS

    async def _pull(self) -> float:
        """One question and what follows from its answer; gives the pause (ms) before the next one."""
        session = self._session
        queue = self.held.queue
        members = session.instance.routes.members_of(queue)
        address = address_to_read(members, self._broker_id)
        if address is None:
            return self._failed(LookupError(f"no address of broker {queue.broker_name} is known"))
        started = time.monotonic()
        request = self._request(started, to_master=address == members.get(MASTER_ID))
        call = session.instance.call(address, request, session.options.consumer_timeout_when_suspend_ms)
        try:
            reply = await (self.held.progress.carry(call) if request.sys_flag & COMMITS_OFFSET else call)
        except Closed:
            raise
        except FlowControl:
            return FLOW_CONTROL_PAUSE_MS
        except BrokerRefused as error:
            if self.held.dropped:
                return 0
            if error.code in FORGOTTEN:
                await session.instance.send_heartbeat(address)
            else:
                session.instance.refresh_route_soon(queue.topic)
            return self._failed(error)
        except (NetError, OrbitError) as error:
            if self.held.dropped:
                return 0
            self._broker_id = MASTER_ID
            session.instance.refresh_route_soon(queue.topic)
            return self._failed(error)
        session.instance.recovered(self._subject)
        self._failures = 0
        if not self.held.dropped:
            await self._took(reply, (time.monotonic() - started) * 1000)
        return 0

    def _carries(self, now: float) -> bool:
        """True if the next pull is to tell the broker how far the queue is done.

        Such a pull is not held, so that its answer comes soon, for commits wait for it. If no messages are
        waiting, it brings none: then there are fewer of them.
        """
        offset = self.held.progress.offset
        if offset <= 0 or offset == self._carried:
            return False
        if now - self._carried_at < (CARRY_SECONDS_BEHIND if self._behind else CARRY_SECONDS):
            return False
        session = self._session
        return not session.options.broadcasting and session.offsets.may_ride(self.held.queue)

    def _request(self, now: float, *, to_master: bool) -> PullMessage:
        session = self._session
        options, queue = session.options, self.held.queue
        commits = to_master and self._carries(now)
        commit_offset = self.held.progress.offset if commits else 0
        if commits:
            self._carried, self._carried_at = commit_offset, now
        subscription = session.subscriptions.get(queue.topic)
        return PullMessage(
            session.group,
            queue.topic,
            queue.queue_id,
            self.next_offset,
            options.pull_batch_size,
            # After a failure an answer is wanted at once, so that it is known that all is well again.
            COMMITS_OFFSET if commits else 0 if self._failures else MAY_BE_HELD,
            commit_offset,
            options.broker_suspend_max_time_ms,
            subscription.data.sub_version if subscription is not None else 0,
            None,
            subscription.data.expression_type if subscription is not None else "TAG",
            options.pull_batch_size_in_bytes,
            None,
            None,
            queue.broker_name,
        )

    async def _took(self, reply: PullReply, took_ms: float) -> None:
        session, held = self._session, self.held
        self._broker_id = reply.suggest_which_broker_id
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:
            held.dropped = True
            self._moved(self, reply.next_begin_offset)
            return
        next_offset, behind = reply.next_begin_offset, reply.max_offset > reply.next_begin_offset
        messages: list[ReceivedMessage] = []
        if reply.code == ResponseCode.SUCCESS:
            subscription = session.subscriptions.get(held.queue.topic)
            room_bytes = max(0, self.limits.max_bytes - held.size_bytes)
            answer = await read_answer(
                reply.body,
                held.queue,
                subscription.data if subscription else None,
                session.group,
                session.options.namespace,
                BodyLimits(session.options.max_inflated_body_bytes, room_bytes),
                reply.offset_delta,
            )
            if held.dropped:
                return
            messages = answer.messages
            if answer.stopped_at is not None:
                next_offset, behind = answer.stopped_at, True
            for problem in answer.problems:
                session.instance.report(self._subject, problem)
            stats = session.stats_of(held.queue.topic)
            stats.pulls += 1
            stats.pulled += len(messages)
            stats.pull_ms += took_ms
        self.next_offset, self._behind = next_offset, behind
        if messages:
            self._deliver(held, held.put(messages))
        elif not len(held):
            # Nothing that came is left to be handled: what was skipped need not be looked at again.
            held.progress.advance(self.next_offset)

    def _failed(self, error: Exception) -> float:
        """Notes a failure; gives the pause (ms) before the next try."""
        self._session.instance.report(self._subject, error)
        longest = self._session.options.pull_time_delay_when_exception_ms
        # The exponent is bounded, for a broker may be away for days.
        pause_ms = min(FIRST_PAUSE_MS << min(self._failures, 16), longest)
        self._failures += 1
        return pause_ms
