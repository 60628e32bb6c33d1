"""Messages of lite topics: fetched from every broker, handled in the order of each lite topic, acknowledged.

A broker gives out one batch of a lite topic at a time to a group. Until all of it is acknowledged, or visible
again, no other member gets anything of the lite topic: it is enough to keep the last message of the
batch hidden.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections import deque
from dataclasses import dataclass, field, replace

from orbitmq.client.consumer.closing import Closers
from orbitmq.client.consumer.consuming import Handling
from orbitmq.client.consumer.context import ConsumerContext, Subscription
from orbitmq.client.consumer.sending_back import SendBack
from orbitmq.client.core.errors import NoMasterNow
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.namespaces import unwrap
from orbitmq.client.core.reading import BodyLimits, read_record
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.handles.lite import LiteAnswer
from orbitmq.protocol.handles.pop import BadHandle, PopHandle
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.lite import LiteReply, PopLiteMessage
from orbitmq.protocol.requests.pop import AckMessage, ChangeMessageInvisibletime

MOST_MESSAGES = 32
"""Messages of one answer: brokers give no more."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
ANSWER_MS = 10_000
"""Time for an answer beside that for which the broker may hold the request."""
RENEWALS = 3
"""Times that a batch is hidden again within its invisible time."""


@dataclass(eq=False, slots=True)
class Batch:
    """Messages of one lite topic that are this consumer's for now."""

    lite_topic: str
    broker_name: str
    open: deque[tuple[ReceivedMessage, PopHandle]] = field(default_factory=deque)
    """Those that are not acknowledged, in order."""
    hidden_until_ms: int = 0
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where the rest is not for this consumer any more."""


@dataclass(eq=False, repr=False)
class LiteConsumption:
    """Fetches and works off messages, `concurrency` lite topics at a time."""

    _session: ConsumerContext
    _handling: Handling
    _subscription: Subscription
    _invisible_ms: int
    _poll_ms: int
    _resync: asyncio.Event

    def __post_init__(self) -> None:
        self._topic = self._subscription.data.topic
        self._send_back = SendBack(self._session)
        self._at_a_time = asyncio.Semaphore(self._session.options.concurrency)
        self._room = asyncio.Event()
        self._room.set()
        self._batches: dict[Batch, asyncio.Task[None]] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._finishing = False
        self._ended = asyncio.Event()

    # Fetching.

    async def check(self, broker_name: str) -> None:
        """Asks for what is there at once. Raises BrokerRefused where topic or group have no lite topics."""
        address = self._session.instance.routes.master(broker_name)
        if address is not None:
            reply = await self._session.instance.call(address, self._request(0, uuid.uuid4().hex))
            await self._take(reply, broker_name)

    def fetch_from(self, broker_names: list[str]) -> None:
        """Fetches from these brokers, and no longer from others."""
        tasks = self._session.instance.tasks
        for name in self._polls.keys() - set(broker_names):
            self._polls.pop(name).cancel()
        for name in broker_names:
            if not self._finishing and (name not in self._polls or self._polls[name].done()):
                self._polls[name] = tasks.begin(self._poll(name), f"lite topics at {name}", owned=True)

    def _request(self, poll_ms: int, attempt_id: str) -> PopLiteMessage:
        # No born time: the clocks of both sides need not agree.
        client_id, group = self._session.instance.client_id, self._session.group
        return PopLiteMessage(
            client_id, group, self._topic, MOST_MESSAGES, self._invisible_ms, poll_ms, 0, attempt_id
        )

    async def _poll(self, broker_name: str) -> None:
        instance = self._session.instance
        subject = f"lite topics at {broker_name}"
        pause, attempt_id = FIRST_PAUSE_SECONDS, uuid.uuid4().hex
        while not self._finishing:
            await self._room.wait()
            began_ms = now_ms()
            try:
                reply = await self._answer(broker_name, attempt_id)
            except OrbitError as error:
                instance.report(subject, error, at=instance.routes.master(broker_name))
                instance.refresh_route_soon(self._topic)
                self._resync.set()  # a broker that was away has forgotten its clients
            else:
                if reply is None:
                    return
                attempt_id = uuid.uuid4().hex  # before that the same one: an answer may have been lost
                instance.recovered(subject)
                if reply.code == ResponseCode.SUCCESS:
                    await self._take(reply, broker_name)
                if reply.code == ResponseCode.SUCCESS or now_ms() - began_ms > self._poll_ms / 2:
                    pause = FIRST_PAUSE_SECONDS
                    continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _answer(self, broker_name: str, attempt_id: str) -> LiteReply | None:
        """The answer to a request that waits; None where the consumer has ended meanwhile."""
        instance = self._session.instance
        address = instance.routes.master(broker_name)
        if address is None:
            raise NoMasterNow(self._topic)
        call = asyncio.ensure_future(
            instance.call(address, self._request(self._poll_ms, attempt_id), self._poll_ms + ANSWER_MS)
        )
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait([call, ended], return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            ended.cancel()
            call.cancel()

    async def _take(self, reply: LiteReply, broker_name: str) -> None:
        """Has the messages of an answer worked off."""
        session, options = self._session, self._session.options
        records, bad = decode_records(reply.body or b"")
        answer = LiteAnswer.of(reply, broker_name, -1 if bad else len(records))
        for error in bad:
            session.instance.report(f"a record of {self._topic}", error, lasting=False)
        limits = BodyLimits(options.max_inflated_body_bytes)
        batches: dict[str, Batch] = {}
        for place, record in enumerate(records):
            try:
                handle = answer.handle(record)
            except BadHandle as problem:
                session.instance.report(f"a record of {self._topic}", problem, lasting=False)
                continue
            queue = MessageQueue(record.topic, broker_name, record.queue_id)
            message = await read_record(record, queue, limits)
            message.topic = unwrap(options.namespace, record.topic)
            message.reconsume_times = answer.counts.get(place, 0)
            batch = batches.setdefault(handle.lite_topic, Batch(handle.lite_topic, broker_name))
            batch.open.append((message, handle))
        for batch in batches.values():
            batch.hidden_until_ms = now_ms() + self._invisible_ms
            work = session.instance.tasks.begin(
                self._work(batch), f"orbitmq handler of {batch.lite_topic}", owned=False
            )
            self._batches[batch] = work
            work.add_done_callback(functools.partial(self._done, batch))
        self._note_room()

    def _done(self, batch: Batch, _: asyncio.Task[None]) -> None:
        self._batches.pop(batch, None)
        self._note_room()

    def _note_room(self) -> None:
        if len(self._batches) < self._session.options.concurrency:
            self._room.set()
        else:
            self._room.clear()

    # Working.

    async def _work(self, batch: Batch) -> None:
        renewing = asyncio.create_task(self._renew(batch), name=f"renewal of {batch.lite_topic}")
        try:
            while self._goes_on(batch):
                message, handle = batch.open[0]
                async with self._at_a_time:
                    if not self._goes_on(batch):
                        break
                    pause = await self._handle(message)
                if pause:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await batch.given_up.wait()
                elif await self._acknowledge(batch, handle):
                    batch.open.popleft()
        finally:
            renewing.cancel()
            if batch.open:
                await self._release(batch)

    def _goes_on(self, batch: Batch) -> bool:
        return bool(
            batch.open
            and not self._finishing
            and not batch.given_up.is_set()
            and now_ms() < batch.hidden_until_ms
        )

    async def _handle(self, message: ReceivedMessage) -> float:
        """Calls the handler; gives the seconds to wait before it is called again, 0 when that is over."""
        session = self._session
        try:
            outcome = await self._handling.handle_one(self._subscription, message)
            return await self._send_back.in_place(message, outcome)
        except Exception as error:
            # A fault of this library's own: the lite topic may not stand still for it.
            session.instance.report(f"handling of {message!r}", error, lasting=False)
            return session.options.suspend_current_queue_time_ms / 1000

    async def _acknowledge(self, batch: Batch, handle: PopHandle) -> bool:
        """Says that a message is done, again while no broker hears it and the batch is still ours."""
        session, pause = self._session, FIRST_PAUSE_SECONDS
        request = AckMessage(
            session.group, self._topic, 0, _told(handle), handle.queue_offset, handle.lite_topic
        )
        subject = f"acknowledgements at {batch.broker_name}"
        while True:
            address = session.instance.routes.master(batch.broker_name)
            try:
                if address is not None:
                    await session.instance.call(address, request)
                    session.instance.recovered(subject)
                    return True
            except BrokerRefused as error:
                session.instance.report(subject, error, lasting=False)
                batch.given_up.set()  # it is not ours any more
                return False
            except OrbitError as error:
                session.instance.report(subject, error, at=address)
            if now_ms() >= batch.hidden_until_ms or session.instance.is_closed:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    # Hiding.

    async def _renew(self, batch: Batch) -> None:
        """Keeps the rest of a batch hidden for as long as it is worked on."""
        while True:
            await asyncio.sleep(self._invisible_ms / RENEWALS / 1000)
            if not batch.open:
                return
            until_ms = now_ms() + self._invisible_ms
            try:
                await self._hide(batch, batch.open[-1][1], self._invisible_ms, suspend=False)
            except BrokerRefused as error:
                self._session.instance.report(f"renewal of {batch.lite_topic}", error, lasting=False)
                batch.given_up.set()
                return
            except OrbitError as error:
                self._session.instance.report(f"renewal of {batch.lite_topic}", error, lasting=False)
            else:
                batch.hidden_until_ms = until_ms

    async def _hide(self, batch: Batch, handle: PopHandle, ms: int, *, suspend: bool) -> None:
        address = self._session.instance.routes.master(batch.broker_name)
        if address is not None:
            request = ChangeMessageInvisibletime(
                self._session.group, self._topic, 0, _told(handle), handle.queue_offset, ms,
                handle.lite_topic, suspend,
            )  # fmt: skip
            await self._session.instance.call(address, request)

    async def _release(self, batch: Batch) -> None:
        """Gives the rest of a batch back, for whoever of the group asks next."""
        try:
            await self._hide(batch, batch.open[0][1], 1, suspend=True)
        except OrbitError as error:
            self._session.instance.report(f"release of {batch.lite_topic}", error, lasting=False)

    # The end.

    def give_up(self, lite_topic: str) -> None:
        """Leaves what is held of a lite topic to others, save the message in hand."""
        for batch in self._batches:
            if batch.lite_topic == lite_topic:
                batch.given_up.set()

    async def finish(self, closers: Closers) -> None:
        """Fetches nothing more, and returns when the messages in hand are done."""
        self._finishing = True
        self._ended.set()
        self._room.set()
        if self._polls:
            await asyncio.wait(self._polls.values())
        for batch in self._batches:
            batch.given_up.set()
        await closers.wait_for_others(self._batches.values())

    async def close(self, closers: Closers) -> None:
        """Cancels what is still in hand, save by `closers`."""
        tasks = closers.others(self._batches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _told(handle: PopHandle) -> str:
    """Fields that tell a broker of a handle: lite topics have a field of their own."""
    return replace(handle, physical_offset=-1, lite_topic="").to_text()
