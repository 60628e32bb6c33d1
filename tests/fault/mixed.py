"""Every kind of message at once, on a broker that is killed again and again; a ledger of what was promised.

Senders note what the broker acknowledged, and what must become of it: a message of its topic at once, after
a delay, once it is committed, or never. A watcher reads every queue all the time. In the end each queue is
read once more from its beginning, and `Ledger.check` compares.

No send is ever repeated, so a message that is there twice was doubled by the broker.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from orbitmq.net.connection import Connection
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.batch_cy import encode_batch
from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.command import Command
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.ids import parse_offset_message_id
from orbitmq.protocol.message import StoredMessage
from orbitmq.protocol.message_cy import decode_records
from orbitmq.protocol.pop import PopHandle, real_topic
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pop import AckMessage, PopMessage, PopReply
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendBatchMessage,
    SendMessageV2,
    SendReply,
)
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction
from orbitmq.testing import LocalBroker

PRODUCERS = "mixed-producers"
CONSUMERS = "mixed-consumers"
POPPERS = "mixed-poppers"
PLAIN, BATCHED, DELAYED, TIMED, DECIDED = "Plain", "Batched", "Delayed", "Timed", "Decided"
POPPED = "Popped"
RETRIES, DEAD = f"%RETRY%{CONSUMERS}", f"%DLQ%{CONSUMERS}"
QUEUES = 4
LEVELS_MS = {1: 1_000, 2: 2_000, 3: 3_000}
COMMIT, ROLLBACK = 8, 12
INVISIBLE_MS = 4_000
"""How long a popped message is hidden; what is acknowledged in the first half of it is done with for good."""
LOST = (NetError, BrokerRefused)
"""What a request may end with while the broker goes down: nothing is known of it then."""

PROPERTIES: dict[str, object] = {
    "messageDelayLevel": "1s 2s 3s",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1000,
    "recallMessageEnable": "true",
    "flushDelayOffsetInterval": 2000,
}
"""What the broker is started with: short times, so that much comes due between two kills."""


@dataclass(slots=True)
class Promise:
    """What must become of one message that was sent."""

    topic: str
    acknowledged: bool = False
    not_before_ms: float = 0
    """Wall clock before which nobody may see it."""
    visible: bool | None = True
    """Whether it must be seen, must not, or (None) may."""
    life: int = 0
    """The ledger's when it was sent."""


@dataclass(slots=True)
class Ledger:
    """Promises by message, and what was seen where."""

    promises: dict[str, Promise] = field(default_factory=dict)
    first_seen_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    """(topic, message) -> wall clock at which a reader first had it."""
    queues: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    """What the watcher read, in order."""
    decisions: dict[str, int] = field(default_factory=dict)
    """What the producer says of a transaction when it is asked."""
    handled: set[str] = field(default_factory=set)
    """Popped messages whose acknowledgement was taken in good time."""
    popped: set[str] = field(default_factory=set)
    """Popped messages that were acknowledged at any time."""
    checks: int = 0
    kills: int = 0
    stops: int = 0
    life: int = 0
    """Goes up when the broker is about to end, and once more when it has ended."""

    def promise(self, name: str, topic: str, **more: object) -> Promise:
        made = self.promises[name] = Promise(topic, life=self.life, **more)  # type: ignore[arg-type]
        return made

    def outstanding(self) -> list[str]:
        """Messages that have to be seen and were not yet."""
        return [
            name
            for name, promise in self.promises.items()
            if promise.acknowledged
            and promise.visible
            and ((promise.topic, name) not in self.first_seen_ms or self._is_to_be_handled(name, promise))
        ]

    def _is_to_be_handled(self, name: str, promise: Promise) -> bool:
        return promise.topic == POPPED and name not in self.popped

    def check(self, everything: dict[tuple[str, int], list[str]]) -> None:
        """Compares with what queues hold in the end, read from their beginning. Raises AssertionError."""
        for queue, seen in self.queues.items():
            held = everything[queue]
            assert held[: len(seen)] == seen, f"{queue} shows other messages than it did before"
        places: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for (topic, queue_id), names in everything.items():
            for offset, name in enumerate(names):
                places[topic, name].append((queue_id, offset))
        for (topic, name), where in places.items():
            assert len(where) == 1, f"{name} is in {topic} {len(where)} times: {where}"
        for name, promise in self.promises.items():
            place = places.get((promise.topic, name))
            if promise.visible is False:
                assert place is None, f"{name} must not be in {promise.topic}"
            elif promise.acknowledged and promise.visible:
                assert place is not None, f"{name} was acknowledged and is not in {promise.topic}"
        for (topic, name), seen_ms in self.first_seen_ms.items():
            known = self.promises.get(name)
            if known is not None and known.topic == topic:
                early = known.not_before_ms - seen_ms
                assert early <= 0, f"{name} came {early:.0f} ms before its time"
        for queue, names in everything.items():
            self._check_order(queue, names)
        left = [name for name in self.outstanding() if self.promises[name].topic == POPPED]
        assert not left, f"{left[0]} and {len(left) - 1} more could not be popped and acknowledged"

    def _check_order(self, queue: tuple[str, int], names: list[str]) -> None:
        """Each sender waits for its answer before it sends on: its messages stand in that order."""
        if queue[0] not in (PLAIN, BATCHED):
            return
        last: dict[str, int] = {}
        for name in names:
            sender, _, number = name.rpartition("-")
            assert last.get(sender, -1) < int(number), f"{name} is out of order in {queue}"
            last[sender] = int(number)


def now_ms() -> float:
    return time.time() * 1000


def wire(name: str, **properties: object) -> str:
    pairs = {"UNIQ_KEY": name.encode().hex(), "KEYS": name, **properties}
    return "".join(f"{key}\x01{value}\x02" for key, value in pairs.items())


class Mix:
    """Senders, a consumer that gives messages back, a watcher, and whoever kills the broker."""

    def __init__(self, broker: LocalBroker, seed: int) -> None:
        self.broker = broker
        self.ledger = Ledger()
        self.chance = random.Random(seed)
        self.pool = ConnectionPool(self._asked)
        self.over = asyncio.Event()
        self.finished = asyncio.Event()
        """Nothing is sent any more, and all that was promised is there."""
        self._counts: dict[str, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()

    def _name(self, sender: str) -> str:
        self._counts[sender] += 1
        return f"{sender}-{self._counts[sender]}"

    def _send(self, name: str, topic: str, queue_id: int, **properties: object) -> SendMessageV2:
        return SendMessageV2(
            PRODUCERS, topic, "TBW102", QUEUES, queue_id, 0, int(now_ms()), 0, wire(name, **properties),
            body=name.encode(),
        )  # fmt: skip

    async def _call(self, request: object, timeout_ms: int = 5000) -> SendReply:
        return await self.pool.call(self.broker.broker, request, timeout_ms)  # type: ignore[arg-type,return-value]

    # Senders. Each ends one send before it begins the next.

    async def plain(self, queue_id: int) -> None:
        name = self._name(f"plain{queue_id}")
        promise = self.ledger.promise(name, PLAIN)
        await self._call(self._send(name, PLAIN, queue_id))
        promise.acknowledged = True

    async def batch(self, queue_id: int) -> None:
        names = [self._name(f"batch{queue_id}") for _ in range(self.chance.randint(2, 40))]
        promises = [self.ledger.promise(name, BATCHED) for name in names]
        body = encode_batch((0, name.encode(), wire(name).encode()) for name in names)
        await self._call(
            SendBatchMessage(
                PRODUCERS, BATCHED, "TBW102", QUEUES, queue_id, 0, int(now_ms()), 0, "", batch=True, body=body
            )
        )
        for promise in promises:
            promise.acknowledged = True

    async def popped(self, queue_id: int) -> None:
        name = self._name(f"popped{queue_id}")
        promise = self.ledger.promise(name, POPPED)
        await self._call(self._send(name, POPPED, queue_id))
        promise.acknowledged = True

    async def delayed(self, queue_id: int) -> None:
        name = self._name(f"delayed{queue_id}")
        level = self.chance.choice(list(LEVELS_MS))
        promise = self.ledger.promise(name, DELAYED, not_before_ms=now_ms() + LEVELS_MS[level])
        await self._call(self._send(name, DELAYED, queue_id, DELAY=level))
        promise.acknowledged = True

    async def timed(self, queue_id: int) -> None:
        """A timer message; some are recalled at once. Its time is kept to the second, downwards."""
        name = self._name(f"timed{queue_id}")
        due = int(now_ms()) + self.chance.randint(2_000, 9_000)
        promise = self.ledger.promise(name, TIMED, not_before_ms=due - 1000)
        reply = await self._call(self._send(name, TIMED, queue_id, TIMER_DELIVER_MS=due))
        promise.acknowledged = True
        if reply.recall_handle and due > now_ms() + 1500 and self.chance.random() < 0.3:
            promise.visible = None
            await self._call(RecallMessage(TIMED, reply.recall_handle, PRODUCERS))
            if due > now_ms() + 1500:
                promise.visible = False

    async def decided(self, queue_id: int) -> None:
        """A transaction: settled at once, or left for the broker to ask about."""
        name = self._name(f"decided{queue_id}")
        decision = self.chance.choice((COMMIT, COMMIT, ROLLBACK))
        self.ledger.decisions[name] = decision
        promise = self.ledger.promise(name, DECIDED, visible=decision == COMMIT)
        reply = await self._call(self._send(name, DECIDED, queue_id, TRAN_MSG="true", PGROUP=PRODUCERS))
        promise.acknowledged = True
        if self.chance.random() < 0.6:
            place = parse_offset_message_id(reply.msg_id).physical_offset
            unique = name.encode().hex()
            end = EndTransaction(
                PRODUCERS, reply.queue_offset, place, decision, unique, DECIDED, False, unique
            )
            connection = await self.pool.connection(self.broker.broker)
            connection.send_oneway(end)

    def _asked(self, connection: Connection, commands: list[Command]) -> None:
        """The broker asks what became of a transaction."""
        for command in commands:
            if command.code == CheckTransactionState.CODE:
                asked = CheckTransactionState.from_command(command)
                (half,), _ = decode_records(asked.body)
                decision = self.ledger.decisions[half.body.decode()]
                self.ledger.checks += 1
                connection.send_oneway(
                    EndTransaction(
                        PRODUCERS, asked.tran_state_table_offset, asked.commit_log_offset, decision,
                        asked.msg_id or "", DECIDED, True, asked.transaction_id,
                    )
                )  # fmt: skip

    # The consumer that gives back: what it gives back comes again later, or becomes a dead letter.

    async def _give_back(self, record: StoredMessage) -> None:
        name = record.body.decode()
        level = self.chance.choice((0, 1, 2, -1))
        topic = DEAD if level < 0 else RETRIES
        # Level 0 begins with the third level.
        wait_ms = 0 if level < 0 else LEVELS_MS[level or 3]
        promise = Promise(topic, not_before_ms=now_ms() + wait_ms)
        self.ledger.promises[f"{name}#{topic}"] = promise
        await self._call(ConsumerSendMsgBack(record.physical_offset, CONSUMERS, level, record.offset_id))
        promise.acknowledged = True

    # The group that pops: what is not acknowledged comes again, what is does not.

    async def pop(self) -> None:
        """Pops until all is over; forgets some of what it got."""
        while not self.finished.is_set():
            await self._unless_down(self._pop_once)

    async def _pop_once(self) -> None:
        life = self.ledger.life
        ask = PopMessage(POPPERS, POPPED, -1, 16, INVISIBLE_MS, 300, int(now_ms()), 0)
        reply = await self.pool.call(self.broker.broker, ask, 5000)
        records, bad = decode_records(reply.body or b"")
        assert not bad
        acknowledged = []
        for record in records:
            name = record.body.decode()
            # An answer may be lost with the broker: what was popped in an earlier life may come once more.
            is_of_this_life = self.ledger.promises[name].life == life
            again = is_of_this_life and name in self.ledger.handled
            assert not again, f"{name} was acknowledged, and popped again"
            if self.over.is_set() or self.chance.random() < 0.8:
                acknowledged.append(self._acknowledge(record, reply))
        await asyncio.gather(*acknowledged)

    async def _acknowledge(self, record: StoredMessage, reply: PopReply) -> None:
        text = record.property_map().get("POP_CK")
        if text is None:
            starts = {}
            for item in (reply.start_offset_info or "").split(";"):
                kind, queue_id, start = map(int, item.split())
                starts[kind, queue_id] = start
            handle = PopHandle(
                starts[0, record.queue_id], reply.pop_time, reply.invisible_time, reply.revive_qid, 0,
                "broker-a", record.queue_id, record.queue_offset,
            )  # fmt: skip
        else:
            handle = PopHandle.from_text(text)
        topic = real_topic(POPPED, POPPERS, handle.topic_type)
        await self._call(AckMessage(POPPERS, topic, handle.queue_id, handle.to_text(), handle.queue_offset))
        name = record.body.decode()
        self.ledger.popped.add(name)
        if now_ms() - reply.pop_time < INVISIBLE_MS / 2:
            self.ledger.handled.add(name)

    # What everybody may see.

    def _note(self, topic: str, queue_id: int, records: list[StoredMessage]) -> None:
        for record in records:
            name = self._as(topic, record)
            self.ledger.queues[topic, queue_id].append(name)
            self.ledger.first_seen_ms.setdefault((topic, name), now_ms())
            if topic == PLAIN and self.chance.random() < 0.1 and not self.over.is_set():
                task = asyncio.create_task(self._unless_down(lambda record=record: self._give_back(record)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _as(topic: str, record: StoredMessage) -> str:
        name = record.body.decode()
        return f"{name}#{topic}" if topic in (RETRIES, DEAD) else name

    async def _pull(self, topic: str, queue_id: int, offset: int, hold_ms: int) -> list[StoredMessage]:
        pull = PullMessage(
            "mixed-watchers",
            topic,
            queue_id,
            offset,
            32,
            6 if hold_ms else 4,
            0,
            hold_ms,
            0,
            subscription="*",
        )
        reply = await self.pool.call(self.broker.broker, pull, 5000 + hold_ms)
        if not reply.body:
            return []
        records, bad = decode_records(reply.body)
        assert not bad
        assert [record.queue_offset for record in records] == list(range(offset, offset + len(records)))
        return records

    async def watch(self, topic: str, queue_id: int) -> None:
        """Reads one queue from its beginning, and waits for more."""
        while not self.finished.is_set():
            offset = len(self.ledger.queues[topic, queue_id])
            try:
                self._note(topic, queue_id, await self._pull(topic, queue_id, offset, 500))
            except LOST:
                await asyncio.sleep(0.1)

    async def everything(self) -> dict[tuple[str, int], list[str]]:
        """What every queue holds, read anew from its beginning."""
        held: dict[tuple[str, int], list[str]] = {}
        for queue in ALL_QUEUES:
            names = held[queue] = []
            try:
                end = (await self.pool.call(self.broker.broker, GetMaxOffset(*queue))).offset
            except BrokerRefused:
                continue  # a retry topic that was never needed
            while len(names) < end:
                names += [self._as(queue[0], one) for one in await self._pull(*queue, len(names), 0)]
        return held

    # The run.

    async def _unless_down(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except LOST:
            await asyncio.sleep(0.05)

    async def _again_and_again(self, step: Callable[[int], Awaitable[None]], queue_id: int) -> None:
        while not self.over.is_set():
            await self._unless_down(lambda: step(queue_id))
            await asyncio.sleep(self.chance.random() * 0.02)

    async def _heartbeats(self) -> None:
        data = HeartbeatData(client_id="mixed@1", producer_data_set=[ProducerData(PRODUCERS)])
        while not self.finished.is_set():
            await self._unless_down(lambda: self._call(Heartbeat(body=data)))  # type: ignore[arg-type,return-value]
            await asyncio.sleep(0.3)

    async def _trouble(self) -> None:
        """Kills the broker, or stops it in order, and starts it again."""
        while not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(1, 6))
            self.ledger.life += 1
            if self.chance.random() < 0.8:
                self.ledger.kills += 1
                await asyncio.to_thread(self.broker.kill)
            else:
                self.ledger.stops += 1
                await asyncio.to_thread(self.broker.halt)
            self.ledger.life += 1
            await asyncio.to_thread(self.broker.start)

    async def run(self, seconds: float, settle_seconds: float = 60) -> None:
        """The whole of it. Raises AssertionError with the first promise that was not kept."""
        steady = [asyncio.create_task(self.watch(*queue)) for queue in ALL_QUEUES]
        steady.append(asyncio.create_task(self._heartbeats()))
        steady.append(asyncio.create_task(self.pop()))
        steps = (self.plain, self.batch, self.popped, self.delayed, self.timed, self.decided)
        busy = [
            asyncio.create_task(self._again_and_again(step, queue_id))
            for step in steps
            for queue_id in range(QUEUES)
        ]
        busy.append(asyncio.create_task(self._trouble()))
        try:
            # Whoever ends before the time has failed.
            await asyncio.wait((*steady, *busy), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            self.over.set()
            await asyncio.gather(*busy, *self._tasks)
            await self._settle(settle_seconds)
            self.finished.set()
            await asyncio.gather(*steady)
            await asyncio.to_thread(self.broker.kill)
            await asyncio.to_thread(self.broker.start)
            self.ledger.check(await self.everything())
        finally:
            for task in (*steady, *busy):
                task.cancel()
            await self.pool.close()

    async def _settle(self, seconds: float) -> None:
        """Waits until all that was promised is there, and a little for what must not come.

        Gives up where nothing more has come for so many seconds.
        """
        left = len(self.ledger.outstanding())
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            before, left = left, len(self.ledger.outstanding())
            if left < before:
                deadline = time.monotonic() + seconds
        await asyncio.sleep(5)


ALL_QUEUES = [
    (topic, queue_id)
    for topic in (PLAIN, BATCHED, POPPED, DELAYED, TIMED, DECIDED)
    for queue_id in range(QUEUES)
]
ALL_QUEUES += [(RETRIES, 0), (DEAD, 0)]


@asynccontextmanager
async def mixing(broker: LocalBroker, seed: int) -> AsyncIterator[Mix]:
    """A mix on a broker that runs."""
    mix = Mix(broker, seed)
    try:
        yield mix
    finally:
        await mix.pool.close()
