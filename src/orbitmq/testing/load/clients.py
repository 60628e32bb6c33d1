"""Clients of all kinds, as requests on connections: their answers go into a history.

They know no clock and no chance of their own, so the same clients run against a broker of its own process and
in a simulation.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial

from orbitmq.net.connection import Connection
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Malformed, MalformedReply
from orbitmq.protocol.handles.pop import PopHandle, real_topic
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import GetMaxOffset, QueryConsumerOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.pop import AckMessage, PopMessage, PopReply
from orbitmq.protocol.requests.pull import PullMessage, QueryMessage
from orbitmq.protocol.requests.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendBatchMessage,
    SendMessageV2,
    SendReply,
)
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction
from orbitmq.testing.load.history import History, Promise

PRODUCERS, CONSUMERS, POPPERS, READERS = "load-producers", "load-consumers", "load-poppers", "load-readers"
TOPICS = {
    "plain": "LoadPlain",
    "batch": "LoadBatch",
    "popped": "LoadPopped",
    "delayed": "LoadDelayed",
    "timed": "LoadTimed",
    "decided": "LoadDecided",
}
COMMIT, ROLLBACK = 8, 12
INVISIBLE_MS = 4_000
"""Invisible time of a popped message; an acknowledgement in its first half is final."""
LOST = (NetError, BrokerRefused, MalformedReply)
"""Errors of a request while the broker goes down; its outcome is unknown then."""
FIRST_RETRY_LEVEL = 3
"""The judge's own number, not the one of the broker that it judges."""


def wire(name: str, **properties: object) -> str:
    """Properties as they are sent."""
    pairs = {"UNIQ_KEY": name.encode().hex(), "KEYS": name, **properties}
    return "".join(f"{key}\x01{value}\x02" for key, value in pairs.items())


def body_of(name: str) -> bytes:
    """A body that names its message, and of which every byte is known."""
    return name.encode() + b"|" * (1 + sum(name.encode()) * 7 % 900)


@dataclass(eq=False, repr=False)
class Clients:
    """Senders, readers, poppers and deciders of one broker; `over` ends the sending, `finished` the rest.

    With a `suffix` of their own topics and groups are those of no earlier clients on that broker.
    """

    address: str
    history: History
    now_ms: Callable[[], float]
    chance: random.Random
    _: KW_ONLY
    levels_ms: Mapping[int, int]
    kinds: tuple[str, ...] = tuple(TOPICS)
    queues: int = 4
    pause_seconds: float = 0.02
    most_in_batch: int = 40
    credentials: Credentials | None = None
    quiet_seconds: float = 5.0
    hold_ms: int = 500
    broker_name: str = "broker-a"
    suffix: str = ""

    def __post_init__(self) -> None:
        suffix = self.suffix
        self.pool = ConnectionPool(self._asked, credentials=self.credentials)
        self.over = asyncio.Event()
        self.finished = asyncio.Event()
        self.asked = 0
        """Number of check-backs of transactions."""
        self._looking: asyncio.Task[None] | None = None
        """The task that waits for the broker to come back."""
        self._counts: dict[str, int] = defaultdict(int)
        self._decisions: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.topics = {kind: topic + suffix for kind, topic in TOPICS.items()}
        self._producers, self._consumers = PRODUCERS + suffix, CONSUMERS + suffix
        self._poppers, self._readers = POPPERS + suffix, READERS + suffix
        self.retries, self.dead = f"%RETRY%{self._consumers}", f"%DLQ%{self._consumers}"
        self._given_back = {self.retries: asyncio.Event(), self.dead: asyncio.Event()}
        """Nothing makes these topics before."""
        self.all_queues = [
            (self.topics[kind], queue_id) for kind in self.kinds for queue_id in range(self.queues)
        ]
        if "plain" in self.kinds:
            self.all_queues += [(self.retries, 0), (self.dead, 0)]

    async def make_topics(self) -> None:
        """Makes the topics, whatever the broker's options say of making them by themselves."""
        for kind in self.kinds:
            await self._call(  # as an operator would
                UpdateAndCreateTopic(
                    self.topics[kind], "TBW102", self.queues, self.queues, 6, "SINGLE_TAG", False
                )
            )

    def _name(self, sender: str) -> str:
        self._counts[sender] += 1
        return f"{sender}-{self._counts[sender]}"

    def _send(self, name: str, kind: str, queue_id: int, **properties: object) -> SendMessageV2:
        return SendMessageV2(
            self._producers, self.topics[kind], "TBW102", self.queues, queue_id, 0, int(self.now_ms()), 0,
            wire(name, **properties), body=body_of(name),
        )  # fmt: skip

    async def _call(self, request: object, timeout_ms: int = 5000) -> SendReply:
        return await self.pool.call(self.address, request, timeout_ms)  # type: ignore[arg-type]

    def _took(self, promise: Promise, reply: SendReply) -> None:
        if reply.code != ResponseCode.SUCCESS:
            return  # stored, and not as safe as was promised
        place = -1
        with suppress(Malformed):
            place = parse_offset_message_id((reply.msg_id or "").split(",")[0]).physical_offset
        self.history.acknowledge(promise, self.now_ms(), place)

    # Senders. Each ends one send before it begins the next.

    async def plain(self, queue_id: int) -> None:
        name = self._name(f"plain{queue_id}")
        promise = self.history.promise(name, self.topics["plain"], queue_id, "plain")
        self._took(promise, await self._call(self._send(name, "plain", queue_id)))

    async def batch(self, queue_id: int) -> None:
        """Several messages in one request."""
        names = [self._name(f"batch{queue_id}") for _ in range(self.chance.randint(2, self.most_in_batch))]
        promises = [self.history.promise(name, self.topics["batch"], queue_id, "batch") for name in names]
        body = encode_batch((0, body_of(name), wire(name).encode()) for name in names)
        request = SendBatchMessage(
            self._producers, self.topics["batch"], "TBW102", self.queues, queue_id, 0, int(self.now_ms()), 0,
            "", batch=True, body=body,
        )  # fmt: skip
        reply = await self._call(request)
        if reply.code != ResponseCode.SUCCESS:
            return
        places = (reply.msg_id or "").split(",")
        for number, promise in enumerate(promises):
            place = -1
            with suppress(Malformed, IndexError):
                place = parse_offset_message_id(places[number]).physical_offset
            self.history.acknowledge(promise, self.now_ms(), place)

    async def popped(self, queue_id: int) -> None:
        """One message for those who pop."""
        name = self._name(f"popped{queue_id}")
        promise = self.history.promise(name, self.topics["popped"], queue_id, "popped")
        self._took(promise, await self._call(self._send(name, "popped", queue_id)))

    async def delayed(self, queue_id: int) -> None:
        name = self._name(f"delayed{queue_id}")
        level = self.chance.choice(list(self.levels_ms))
        promise = self.history.promise(
            name,
            self.topics["delayed"],
            queue_id,
            "delayed",
            not_before_ms=self.now_ms() + self.levels_ms[level],
        )
        self._took(promise, await self._call(self._send(name, "delayed", queue_id, DELAY=level)))

    async def timed(self, queue_id: int) -> None:
        """A timer message; some are recalled at once. Its time is kept to the second, downwards."""
        name = self._name(f"timed{queue_id}")
        due = int(self.now_ms()) + self.chance.randint(2_000, 9_000)
        promise = self.history.promise(
            name, self.topics["timed"], queue_id, "timed", not_before_ms=due - 1000
        )
        reply = await self._call(self._send(name, "timed", queue_id, TIMER_DELIVER_MS=due))
        self._took(promise, reply)
        if reply.recall_handle and due > self.now_ms() + 1500 and self.chance.random() < 0.3:
            promise.visible = None
            life = self.history.life
            await self._call(RecallMessage(self.topics["timed"], reply.recall_handle, self._producers))
            # An answer of a life that is over may report what a power cut took.
            if due > self.now_ms() + 1500 and life == self.history.life:
                self.history.recalled(promise)

    async def decided(self, queue_id: int) -> None:
        """A transaction: ended at once, or left for the broker to ask about."""
        name = self._name(f"decided{queue_id}")
        decision = self.chance.choice((COMMIT, COMMIT, ROLLBACK))
        self._decisions[name] = decision
        promise = self.history.promise(
            name, self.topics["decided"], queue_id, "decided", visible=decision == COMMIT
        )
        reply = await self._call(
            self._send(name, "decided", queue_id, TRAN_MSG="true", PGROUP=self._producers)
        )
        self._took(promise, reply)
        if self.chance.random() < 0.6:
            unique = name.encode().hex()
            place = parse_offset_message_id(reply.msg_id).physical_offset
            end = EndTransaction(
                self._producers,
                reply.queue_offset,
                place,
                decision,
                unique,
                self.topics["decided"],
                False,
                unique,
            )
            (await self.pool.connection(self.address)).send_oneway(end)

    def _asked(self, connection: Connection, commands: list[Command]) -> None:
        """The broker asks what became of a transaction."""
        for command in commands:
            if command.code != CheckTransactionState.CODE:
                continue
            asked = CheckTransactionState.from_command(command)
            (half,), _ = decode_records(asked.body)
            decision = self._decisions.get(self._name_in(half))
            if decision is None:
                self.history.break_("invented", "the broker asks about a transaction that nobody began")
                continue
            self.asked += 1
            connection.send_oneway(
                EndTransaction(
                    self._producers, asked.tran_state_table_offset, asked.commit_log_offset, decision,
                    asked.msg_id or "", self.topics["decided"], True, asked.transaction_id,
                )
            )  # fmt: skip

    # Consumers that give back: the message comes again later, or becomes a dead letter.

    async def _give_back(self, record: StoredMessage, name: str) -> None:
        retry_ms = self.levels_ms.get(FIRST_RETRY_LEVEL)
        level = self.chance.choice((0, 1, 2, -1) if retry_ms is not None else (-1,))
        topic = self.dead if level < 0 else self.retries
        if f"{name}#{topic}" in self.history.promises:
            return  # read once more after a power cut
        wait_ms = 0 if level < 0 else self.levels_ms.get(level or FIRST_RETRY_LEVEL, 0)
        promise = self.history.promise(
            f"{name}#{topic}", topic, 0, "given back", not_before_ms=self.now_ms() + wait_ms
        )
        self._given_back[topic].set()
        await self._call(
            ConsumerSendMsgBack(record.physical_offset, self._consumers, level, record.offset_id)
        )
        self.history.acknowledge(promise, self.now_ms())

    # Consumers that pop: an unacknowledged message comes again, an acknowledged one does not.

    async def _pop_once(self) -> None:
        history = self.history
        life, address = history.life, self.address
        ask = PopMessage(
            self._poppers, self.topics["popped"], -1, 16, INVISIBLE_MS, 300, int(self.now_ms()), 0
        )
        asked_ms = self.now_ms()
        reply = await self.pool.call(address, ask, 5000)
        records, bad = decode_records(reply.body or b"")
        if bad:
            history.break_("invented", f"a pop gave a record that cannot be read: {bad[0].reason}")
        for record in records:
            name = self._name_in(record)
            if history.life == life and self._counts_from(address):
                history.pop(name)
            if not self.over.is_set() and self.chance.random() < 0.3:
                continue
            try:
                await self._acknowledge(record, reply)
            except LOST:
                # It may have been taken; then it never comes again.
                history.pop_acknowledged(name, in_time=False, life=life)
                raise
            in_time = self.now_ms() - asked_ms < INVISIBLE_MS / 2 and self._counts_from(address)
            history.pop_acknowledged(name, in_time=in_time, life=life)

    async def _acknowledge(self, record: StoredMessage, reply: PopReply) -> None:
        text = record.property_map().get("POP_CK")
        if text is None:
            starts = {}
            for item in (reply.start_offset_info or "").split(";"):
                kind, queue_id, start = map(int, item.split())
                starts[kind, queue_id] = start
            handle = PopHandle(
                starts[0, record.queue_id], reply.pop_time, reply.invisible_time, reply.revive_qid, 0,
                self.broker_name, record.queue_id, record.queue_offset,
            )  # fmt: skip
        else:
            handle = PopHandle.from_text(text)
        topic = real_topic(self.topics["popped"], self._poppers, handle.topic_type)
        await self._call(
            AckMessage(self._poppers, topic, handle.queue_id, handle.to_text(), handle.queue_offset)
        )

    # Public state.

    def _name_in(self, record: StoredMessage) -> str:
        name = record.body.split(b"|")[0].decode("utf-8", "replace")
        if record.body != body_of(name):
            self.history.break_("invented", f"a body is not as it was sent: {record.body[:60]!r}")
        return name

    def _as(self, topic: str, record: StoredMessage) -> str:
        name = self._name_in(record)
        return f"{name}#{topic}" if topic in (self.retries, self.dead) else name

    def _reading_address(self) -> str:
        """The broker that is asked for messages."""
        return self.address

    def _may_show(self, address: str) -> bool:
        """True if the messages that a broker gives to a pull that begins now are its cluster's."""
        return True

    def _counts_from(self, address: str) -> bool:
        """True if the answer that has just come from a broker is one that its cluster stands by."""
        return True

    async def _pull(self, topic: str, queue_id: int, offset: int, hold_ms: int) -> list[StoredMessage]:
        flags = 6 if hold_ms else 4
        pull = PullMessage(self._readers, topic, queue_id, offset, 32, flags, 0, hold_ms, 0, subscription="*")
        address = self._reading_address()
        may_show = self._may_show(address)
        reply = await self.pool.call(address, pull, 5000 + hold_ms)
        if not reply.body or not may_show:
            return []
        records, bad = decode_records(reply.body)
        if bad:
            self.history.break_("invented", f"a pull gave a record that cannot be read: {bad[0].reason}")
        return records

    async def _read(self, topic: str, queue_id: int) -> None:
        """Reads one queue from its beginning, waits for more, and commits how far it is now and then."""
        history = self.history
        queue = topic, queue_id
        if topic in self._given_back:
            await self._given_back[topic].wait()
        while not self.finished.is_set():
            life, offset = history.life, len(history.seen[queue])
            try:
                records = await self._pull(topic, queue_id, offset, self.hold_ms)
                if life != history.life:
                    continue  # an answer of a life that is over: it may have shown what a power cut took
                for record in records:
                    name = self._as(topic, record)
                    place = record.physical_offset
                    if not history.saw(topic, queue_id, record.queue_offset, name, place, self.now_ms()):
                        break
                    if (
                        topic == self.topics.get("plain")
                        and self.chance.random() < 0.1
                        and not self.over.is_set()
                    ):
                        self._spawn(self._unless_down(partial(self._give_back, record, name)))
                if not records:
                    await asyncio.sleep(0.05)  # an answer without messages may come at once
                elif self.chance.random() < 0.2:
                    await self._commit(queue)
            except ConnectFailed:
                await self._until_back()
            except LOST:
                await asyncio.sleep(0.1)

    async def _commit(self, queue: tuple[str, int]) -> None:
        """Looks how far the group is, and says how far it is now."""
        history, life = self.history, self.history.life
        with suppress(BrokerRefused):  # it has none yet
            address = self.address
            found = await self.pool.call(address, QueryConsumerOffset(self._readers, *queue), 5000)
            if life == history.life and self._counts_from(address):
                history.offset_found(*queue, found.offset)
        offset, life, address = len(history.seen[queue]), history.life, self.address
        history.committed[queue] = max(history.committed[queue], offset)
        is_sure = False
        try:
            await self._call(UpdateConsumerOffset(self._readers, *queue, offset))
            is_sure = self._counts_from(address)
        finally:
            if life == history.life:
                history.offset_committed(*queue, offset, is_sure=is_sure)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def everything(self) -> dict[tuple[str, int], list[str]]:
        """The messages of every queue, read from its beginning, and its offsets."""
        while True:
            try:
                return await self._everything()
            except NetError:  # the broker has only just come back
                await asyncio.sleep(0.2)

    async def _everything(self) -> dict[tuple[str, int], list[str]]:
        held: dict[tuple[str, int], list[str]] = {}
        for queue in self.all_queues:
            names = held[queue] = []
            try:
                end = (await self.pool.call(self.address, GetMaxOffset(*queue))).offset
            except BrokerRefused:
                continue  # a retry topic that was never needed
            while len(names) < end:
                try:
                    records = await self._pull(*queue, len(names), 0)
                except BrokerRefused:
                    break  # a crash came before the topic was known to last: nothing in it was acknowledged
                offsets = [record.queue_offset for record in records]
                if not records or offsets != list(range(len(names), len(names) + len(records))):
                    self.history.break_("gaps", f"{queue} gave {offsets} at {len(names)} of {end}")
                    break
                names += [self._as(queue[0], one) for one in records]
            with suppress(BrokerRefused):
                found = await self.pool.call(self.address, QueryConsumerOffset(self._readers, *queue))
                self.history.offset_found(*queue, found.offset, end)
        return held

    async def look_up(self, name: str) -> bool:
        """True if a query by key finds a message in its topic."""
        promise = self.history.promises[name]
        key = name.partition("#")[0]
        try:
            ask = QueryMessage(promise.topic, key, 64, 0, 1 << 60)
            reply = await self.pool.call(self.address, ask, 10_000)
        except BrokerRefused:
            return False
        records, _ = decode_records(reply.body or b"")
        return name in [self._as(promise.topic, record) for record in records]

    # The run.

    async def _unless_down(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except ConnectFailed:
            await self._until_back()
        except LOST:
            await asyncio.sleep(0.05)

    async def _until_back(self) -> None:
        """Waits for a broker that takes no connections: one looks for it, and wakes all others at once."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        await asyncio.shield(self._looking)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            if self.over.is_set():
                return
            with suppress(NetError):
                await self.pool.connection(self.address)
                return

    async def _again_and_again(self, step: Callable[[int], Awaitable[None]], queue_id: int) -> None:
        while not self.over.is_set():
            await self._unless_down(lambda: step(queue_id))
            await asyncio.sleep(self.chance.random() * self.pause_seconds)

    async def _pop(self) -> None:
        while not self.finished.is_set():
            await self._unless_down(self._pop_once)

    async def _heartbeats(self) -> None:
        data = HeartbeatData(client_id="load@1", producer_data_set=[ProducerData(self._producers)])
        while not self.finished.is_set():
            await self._unless_down(lambda: self._call(Heartbeat(body=data)))  # type: ignore[arg-type,return-value]
            await asyncio.sleep(0.3)

    def start(self) -> None:
        senders = {
            "plain": self.plain, "batch": self.batch, "popped": self.popped, "delayed": self.delayed,
            "timed": self.timed, "decided": self.decided,
        }  # fmt: skip
        steady = [self._read(*queue) for queue in self.all_queues] + [self._heartbeats()]
        if "popped" in self.kinds:
            steady.append(self._pop())
        self._steady = [asyncio.ensure_future(one) for one in steady]
        self._busy = [
            asyncio.ensure_future(self._again_and_again(senders[kind], queue_id))
            for kind in self.kinds
            for queue_id in range(self.queues)
        ]

    def failed(self) -> BaseException | None:
        """The error that ended a client which should still run."""
        for task in (*self._steady, *self._busy):
            if task.done() and not task.cancelled() and task.exception() is not None:
                return task.exception()
        return None

    async def drain(self, seconds: float) -> None:
        """Ends the sending and waits until all that was promised was seen, and a little for what must
        not be. Gives up where nothing more has come for so many seconds.
        """
        self.over.set()
        await asyncio.gather(*self._busy, *self._tasks)
        left = len(self.history.outstanding())
        deadline = self.now_ms() + seconds * 1000
        while left and self.now_ms() < deadline:
            await asyncio.sleep(0.2)
            before, left = left, len(self.history.outstanding())
            if left < before:
                deadline = self.now_ms() + seconds * 1000
        await asyncio.sleep(self.quiet_seconds)
        self.finished.set()
        for begun in self._given_back.values():
            begun.set()
        await asyncio.gather(*self._steady)

    async def stop(self) -> None:
        """Ends what is left of them."""
        tasks = [*getattr(self, "_steady", []), *getattr(self, "_busy", []), *self._tasks]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pool.close()
