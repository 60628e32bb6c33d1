"""Ends of deliveries: acknowledgements, new invisible times, dead letters; and renewals of what is held."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.handles.pop import PopHandle, real_topic
from orbitmq.protocol.requests.pop import RENEWED, AckMessage, ChangeMessageInvisibletime
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.protocol.schema.declare import Reply
from orbitmq.proxy.checks import check_invisible_time, duration_ms, group_name, topic_name
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused, joined_status, status_of
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.receipts import expired, read_handle
from orbitmq.proxy.renewal import Renewals, Renewed
from orbitmq.proxy.settings import retry_delay_ms
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

DEAD_LETTER_LEVEL = -1
"""The delay level that makes a message sent back a dead letter."""


class Settling:
    """The calls AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue."""

    def __init__(
        self, cluster: Cluster, renewals: Renewals, settings: ProxySettings, now: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._renewals = renewals
        self._settings = settings
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """Those of calls under way, by client and by the handle that it was given."""

    @contextlib.asynccontextmanager
    async def _in_turn(self, client_id: str, given: str) -> AsyncIterator[None]:
        """Lets one call at a time work on a message that is renewed. A renewal replaces the handle, and
        Apache's brokers take an acknowledgement by the one before, though it ends nothing.
        """
        if self._renewals.newest(client_id, given) is None:
            yield
            return
        lock = self._locks.setdefault((client_id, given), asyncio.Lock())
        async with lock:
            yield

    async def acknowledge(self, request: pb.AckMessageRequest, caller: Caller) -> pb.AckMessageResponse:
        """Ends deliveries, each by itself: one that fails does not fail the others. Raises ProxyRefused."""
        group, topic = group_name(request.group), topic_name(request.topic)
        if not request.entries:
            raise ProxyRefused(pb.BAD_REQUEST, "the request holds no entries")
        statuses = await asyncio.gather(
            *(self._acknowledge_one(group, topic, entry, caller) for entry in request.entries)
        )
        return pb.AckMessageResponse(
            status=joined_status(list(statuses)),
            entries=[
                pb.AckMessageResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
                )
                for entry, status in zip(request.entries, statuses, strict=True)
            ],
        )

    async def _acknowledge_one(
        self, group: str, topic: str, entry: pb.AckMessageEntry, caller: Caller
    ) -> pb.Status:
        given = entry.receipt_handle
        try:
            async with self._in_turn(caller.client_id, given):
                newest = self._renewals.newest(caller.client_id, given)
                handle = newest or read_handle(given)
                is_over = newest is None and handle.visible_ms <= self._now()
                if is_over and (handle.is_order or handle.lite_topic):
                    raise expired()
                reply = await self._acknowledge(group, topic, handle)
                # Another proxy may have renewed the message: the broker knows.
                if is_over and RENEWED not in (reply.extra or {}):
                    raise expired()
                self._renewals.remove(caller.client_id, given)
        except (ProxyRefused, NetError, BrokerRefused) as error:
            return status_of(error)
        return OK

    async def change_invisible_time(
        self, request: pb.ChangeInvisibleDurationRequest, caller: Caller
    ) -> pb.ChangeInvisibleDurationResponse:
        """Gives a message a new invisible time, and its client a new handle. Raises ProxyRefused."""
        group, topic = group_name(request.group), topic_name(request.topic)
        invisible_ms = duration_ms(request.invisible_duration)
        most_ms = self._settings.max_invisible_time_mills
        # With 0 the message is there at once: the Node.js client gives one back so.
        check_invisible_time(invisible_ms, 0, most_ms)
        async with self._in_turn(caller.client_id, request.receipt_handle):
            handle = self._newest(request.receipt_handle, caller)
            changed = await self._change(group, topic, handle, invisible_ms, suspend=request.suspend)
            self._renewals.remove(caller.client_id, request.receipt_handle)
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=changed.to_text())

    async def forward_to_dead_letters(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, caller: Caller
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Makes a message a dead letter, and ends its delivery. Raises ProxyRefused."""
        group, topic = group_name(request.group), topic_name(request.topic)
        async with self._in_turn(caller.client_id, request.receipt_handle):
            handle = self._newest(request.receipt_handle, caller)
            await self._bury(group, topic, handle, request.message_id)
            self._renewals.remove(caller.client_id, request.receipt_handle)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=pb.Status(code=pb.OK, message="0"))

    # Work of the proxy by itself.

    def acknowledge_soon(self, group: str, topic: str, handle: PopHandle) -> None:
        """Ends the delivery of a message that its client does not want."""
        self._start(self._acknowledge(group, topic, handle), "acknowledge")

    def bury_soon(self, group: str, topic: str, handle: PopHandle) -> None:
        """Makes a dead letter of a message that was delivered too often, or that cannot be read."""
        self._start(self._bury(group, topic, handle, None), "dead letter")

    def release_soon(self, group: str, topic: str, handle: PopHandle) -> None:
        """Has others of the group get a message whose client is gone."""
        pause_ms = max(1, self._settings.invisible_time_millis_when_clear)
        self._start(self._release(group, topic, handle, pause_ms), "release")

    async def _release(self, group: str, topic: str, handle: PopHandle, pause_ms: int) -> None:
        await self._change(group, topic, handle, pause_ms)

    async def renew_due(self) -> None:
        """Renews what would become visible soon; what was held for too long goes back to its group."""
        now = self._now()
        await asyncio.gather(*(self._renew(given, one, now) for given, one in list(self._renewals.due(now))))

    def release_client(self, client_id: str) -> None:
        """Has others get the messages of a client that is gone."""
        for one in self._renewals.remove_client(client_id):
            self.release_soon(one.group, one.topic, one.handle)

    async def close(self) -> None:
        """Waits a moment for what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)

    async def _renew(self, given: str, one: Renewed, now: int) -> None:
        one.is_busy = True
        try:
            async with self._in_turn(one.client_id, given):
                if self._renewals.newest(one.client_id, given) is not None:  # else its client has ended it
                    await self._renew_now(given, one, now)
        except (ProxyRefused, NetError, BrokerRefused) as error:
            if self._renewals.failed(one):
                log.warning(
                    "message %s of %s is not renewed any longer: %s", one.message_id, one.topic, error
                )
                self._renewals.remove(one.client_id, given)
        finally:
            one.is_busy = False

    async def _renew_now(self, given: str, one: Renewed, now: int) -> None:
        if self._renewals.is_over(one, now):
            self._renewals.remove(one.client_id, given)
            pause_ms = retry_delay_ms(await self._cluster.group(one.group), one.attempt)
            await self._change(one.group, one.topic, one.handle, pause_ms)
            return
        next_ms = self._renewals.next_ms(one)
        changed = await self._change(one.group, one.topic, one.handle, next_ms, renewal=True)
        self._renewals.renewed(one, changed)

    def _newest(self, given: str, caller: Caller) -> PopHandle:
        """The handle that counts now: a renewed one in place of the client's. Raises ProxyRefused."""
        newest = self._renewals.newest(caller.client_id, given)
        if newest is not None:
            return newest
        handle = read_handle(given)
        if handle.visible_ms <= self._now():
            raise expired()
        return handle

    async def _acknowledge(self, group: str, topic: str, handle: PopHandle) -> Reply:
        stored_in = real_topic(topic, group, handle.topic_type)
        what = (group, stored_in, handle.queue_id, _told(handle), handle.queue_offset)
        return await self._cluster.call(
            await self._cluster.master(handle.broker_name), AckMessage(*what, handle.lite_topic or None)
        )

    async def _change(
        self,
        group: str,
        topic: str,
        handle: PopHandle,
        invisible_ms: int,
        *,
        suspend: bool = False,
        renewal: bool = False,
    ) -> PopHandle:
        stored_in = real_topic(topic, group, handle.topic_type)
        what = (group, stored_in, handle.queue_id, _told(handle), handle.queue_offset, invisible_ms)
        lite_topic = handle.lite_topic
        reply = await self._cluster.call(
            await self._cluster.master(handle.broker_name),
            ChangeMessageInvisibletime(
                *what, lite_topic or None, suspend if lite_topic else None, renewal or None
            ),
        )
        if lite_topic and not reply.pop_time:
            return handle  # it was acknowledged before
        return handle.hidden(reply.pop_time, reply.invisible_time, reply.revive_qid)

    async def _bury(self, group: str, topic: str, handle: PopHandle, message_id: str | None) -> None:
        if handle.physical_offset < 0:
            raise ProxyRefused(pb.INVALID_RECEIPT_HANDLE, "receipt handle without a physical offset")
        await self._cluster.call(
            await self._cluster.master(handle.broker_name),
            ConsumerSendMsgBack(
                handle.physical_offset, group, DEAD_LETTER_LEVEL, message_id, topic, max_reconsume_times=0
            ),
        )
        await self._acknowledge(group, topic, handle)

    def _start(self, work: Coroutine[Any, Any, object], name: str) -> None:
        async def run() -> None:
            try:
                await work
            except (ProxyRefused, NetError, BrokerRefused) as error:
                log.warning("%s: %s", name, error)

        task = asyncio.create_task(run(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _told(handle: PopHandle) -> str:
    """Fields that tell a broker of a handle: lite topics have a field of their own."""
    return (replace(handle, lite_topic="") if handle.lite_topic else handle).to_text()
