"""A broker's rules over a disk in memory and a clock that the test moves, with a ledger of what it promised.

`Recorded.work` does what clients and the server do, at random: it sends plain, batched, delayed and timed
messages and transactions, gives messages back, pops and acknowledges, commits offsets, lets time pass,
flushes, writes queues, saves tables. The disk keeps a journal of it, so `check_after` can open the folder as
it was after any step, killed or after a power cut, and hold what is found against the promises made until
then.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orbitmq.handling.call import Durable, Outcome, Saved, Wait, Warm
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.names import HALF_TOPIC
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pop import AckMessage, PopMessage, PopReply
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendBatchMessage, SendMessageV2, SendReply
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.store import FlushFailed
from orbitmq.store.config_files import read_text, write_text
from orbitmq.store.timer import recovery as timer_recovery
from orbitmq.store.timer import wheel as timer_wheel
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.pop import Got, got_of
from tests.kit.real_broker import NOW, RealBroker
from tests.kit.store import query, read_queue

TOPIC, GROUP, QUEUES = "T", "G", 3
RETRIES, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
POPPERS = "P"
INVISIBLE_MS = 1_500
COMMIT, ROLLBACK = 8, 12
LONGEST_WAIT_MS = 4_000
SMALL: dict[str, object] = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 20 * 40,
    "mappedFileSizeTimerLog": 4096,
    "maxHashSlotNum": 20,
    "maxIndexNum": 120,
    "maxMessageSize": 8 << 10,
    "messageDelayLevel": "1s 2s 3s",
    "flushCommitLogThoroughInterval": 2_000,
    "flushConsumeQueueThoroughInterval": 3_000,
    "flushDelayOffsetInterval": 1_000,
    "flushConsumerOffsetInterval": 1_500,
    "enablePropertyFilter": "true",
}
"""Files so small that a run of seconds fills several of each."""


@dataclass(slots=True)
class Promise:
    """Fate that one message must have."""

    body: bytes
    due_ms: int = 0
    """Not before this, and only once."""
    acked_at: int | None = None
    """Number of steps in the journal when the broker answered."""
    end: int = 0
    """The end of the log then: on the disk up to here means the message is."""
    acked_ms: int = 0
    decision: int | None = None
    """Of a transaction that was decided, and when that was answered:"""
    decided_at: int | None = None
    decided_end: int = 0
    half: SendReply | None = None
    is_half: bool = False


class Sample(NamedTuple):
    """The broker's report about itself before a step."""

    step: int
    now: int
    durable: int
    end: int
    unflushed_bytes: int
    unflushed_ms: int


@dataclass(slots=True)
class Ledger:
    """Promises, and their times."""

    promises: dict[bytes, Promise] = field(default_factory=dict)
    offsets: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(step, end of the log, queue id, offset) of offsets whose file was written."""
    committed: dict[int, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    given_back: dict[tuple[str, bytes], Promise] = field(default_factory=dict)
    """By the topic that a message is to come again in, and its body."""
    popped_away: dict[bytes, int] = field(default_factory=dict)
    """Bodies whose pop somebody acknowledged, and at which step it was asked for."""

    def sample_at(self, step: int) -> Sample:
        """The newest sample at a step."""
        found = bisect_right(self.samples, step, key=lambda sample: sample.step) - 1
        return self.samples[max(0, found)]


class Recorded:
    """A broker that lives on a disk in memory."""

    def __init__(self, disk: RecordedDisk, now: int = NOW, **properties: object) -> None:
        self.disk = disk
        self.now = now
        self.properties = {**SMALL, **properties}
        self.sync = properties.get("flushDiskType") == "SYNC_FLUSH"
        self.ledger = Ledger()
        self.fails = False
        """True if the disk may fail: what the server logs and goes on from is no error then."""
        self._waiting: list[tuple[Wait, Callable[[Reply | None], None]]] = []
        self._due: dict[str, int] = {}
        files = self._read_files()
        self.real = RealBroker(disk.root, now, files, disk, **self.properties)
        self.broker, self.store = self.real.broker, self.real.store
        self._config = disk.root / "config"
        for name in self.broker.files:
            if name not in files and name != self.broker.auth.NAME:
                self.broker.dirty_tables.mark(name)
        disk.before = self._sample
        for group in (GROUP, POPPERS):
            self.broker.groups.find(group, now)
        self._in_hand: list[Got] = []

    def _read_files(self) -> dict[str, str]:
        """The tables' texts, as the server reads them; one there that cannot be used ends the start."""
        found = {}
        for name, file_name, load_text in tables_of_broker(self.disk.root, self.properties):

            def is_usable(text: str, load_text: Callable[[str], None] = load_text) -> bool:
                try:
                    load_text(text)
                except Malformed:
                    return False
                return True

            read = read_text(self.disk.root / "config" / file_name, is_usable, self.disk)
            if read.text is not None:
                assert is_usable(read.text), f"{file_name} and its .bak cannot be read"
                found[name] = read.text
        return found

    def _sample(self, kind: str, path: Path) -> None:
        if hasattr(self, "store"):
            waiting, waited_ms = self.store.flushing.unflushed(self.now)
            self.ledger.samples.append(
                Sample(
                    len(self.disk.journal),
                    self.now,
                    self.store.durable_offset,
                    self.store.max_physical,
                    waiting,
                    waited_ms,
                )
            )

    def sample(self) -> None:
        """Notes what is in the maps, and what the broker says of itself."""
        self.disk.notice()
        self._sample("", self.disk.root)

    def kill(self) -> None:
        """The end of the process."""
        self.store.abandon()

    def close(self) -> None:
        """An orderly end."""
        self.broker.stop(self.now)
        self._save(set(self.broker.files) - {self.broker.auth.NAME})
        self.store.close()

    # Actions of clients.

    def _ask(self, result: Any, answered: Callable[[Reply | None], None]) -> None:
        if isinstance(result, Wait):
            self._waiting.append((result, answered))
        elif isinstance(result, Reply):
            answered(result)

    def send(self, promise: Promise, queue_id: int, properties: str = "", sys_flag: int = 0) -> None:
        """Sends a message; once it is acknowledged the promise holds."""
        name = promise.body.split()[0].decode()
        text = f"UNIQ_KEY\x01{name}\x02KEYS\x01k{len(promise.body) % 5}\x02{properties}"
        result = self.real.send(
            self.now,
            topic=TOPIC,
            queue_id=queue_id,
            default_topic_queue_nums=QUEUES,
            body=promise.body,
            properties=text,
            sys_flag=sys_flag,
            born_timestamp=self.now,
        )
        self.ledger.promises[promise.body] = promise

        def answered(reply: Reply | None) -> None:
            self._keep(promise)
            assert isinstance(reply, SendReply)
            promise.half = reply if promise.is_half else None

        self._ask(result, answered)

    def send_batch(self, promises: Sequence[Promise], queue_id: int) -> None:
        """Sends messages as one."""
        parts = []
        for promise in promises:
            name = promise.body.split()[0].decode()
            parts.append((0, promise.body, f"UNIQ_KEY\x01{name}\x02".encode()))
            self.ledger.promises[promise.body] = promise
        request = SendBatchMessage(
            *("PG", TOPIC, "TBW102", QUEUES, queue_id, 0, self.now, 0, ""),
            batch=True,
            body=encode_batch(parts),
        )
        (result,) = self.real.send_together([request], self.now)

        def answered(reply: Reply | None) -> None:
            for promise in promises:
                self._keep(promise)

        self._ask(result, answered)

    def _keep(self, promise: Promise) -> None:
        """It was acknowledged: from now on it holds."""
        self.sample()
        promise.acked_at, promise.end = len(self.disk.journal), self.store.max_physical
        promise.acked_ms = self.now

    def give_back(self, queue_id: int, offset: int, level: int) -> None:
        """Somebody could not handle a message: it comes again, or below level 0 becomes a dead letter."""
        unit = self.store.physical_offset_of(TOPIC, queue_id, offset)
        record = None if unit is None else self.store.record_at(unit[0])
        if record is None:
            return
        message = decode_record(record)
        key = (DEAD if level < 0 else RETRIES, message.body)
        if key in self.ledger.given_back:
            return
        promise = Promise(message.body, due_ms=self.now + max(0, level) * 1_000)
        self.ledger.given_back[key] = promise
        request = ConsumerSendMsgBack(message.physical_offset, GROUP, level)
        self._request(request, lambda reply: self._keep(promise))

    def pop(self, queue_id: int, count: int = 4, then: Callable[[list[Got]], None] | None = None) -> None:
        """A member of the poppers takes messages of a queue, or of any (-1), and has them in hand."""
        if self.broker.topics.get(TOPIC) is None:
            return  # nobody has sent anything yet
        request = PopMessage(POPPERS, TOPIC, queue_id, count, INVISIBLE_MS, 0, self.now, 0)

        def answered(reply: Reply | None) -> None:
            assert isinstance(reply, PopReply)
            (then or self._in_hand.extend)(got_of(reply, TOPIC, POPPERS))

        self._request(request, answered)

    def acknowledge(self, got: Got) -> None:
        """Whoever popped a message is done with it."""
        handle = got.handle
        request = AckMessage(POPPERS, got.topic, handle.queue_id, handle.to_text(), got.record.queue_offset)
        self.ledger.popped_away.setdefault(got.body, len(self.disk.journal))
        self._request(request, lambda reply: None)

    def _request(self, request: Request[Any], answered: Callable[[Reply | None], None]) -> None:
        """Asks for something that a disk which fails may have the broker refuse."""
        try:
            result = self.real.handle(request, self.now)
        except (Refused, OSError):
            if not self.fails:
                raise
        else:
            self._ask(result, answered)

    def decide(self, promise: Promise, decision: int) -> None:
        """Ends a transaction."""
        half = promise.half
        assert half is not None
        promise.half, promise.decision = None, decision
        request = EndTransaction(
            producer_group="PG",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=int(half.msg_id[-16:], 16),
            commit_or_rollback=decision,
            msg_id=half.transaction_id or "",
            transaction_id=half.transaction_id,
        )

        def answered(reply: Reply | None) -> None:
            self.sample()
            promise.decided_at, promise.decided_end = len(self.disk.journal), self.store.max_physical

        self._request(request, answered)

    def commit_offset(self, queue_id: int, offset: int) -> None:
        """A group has got so far."""
        self.real.handle(UpdateConsumerOffset(GROUP, TOPIC, queue_id, offset), self.now)
        self.ledger.committed[queue_id] = offset

    # Actions of the server.

    def turn(self) -> None:
        """The end of a turn: flush, tables, answers that waited for them."""
        self.sample()
        if self.store.flushing.is_wanted or self._waits_for(Durable):
            self._try(self.store.flushing.flush_now)
        self.store.arrivals.drain()
        if self.broker.dirty_tables.any_soon:
            names = self.broker.dirty_tables.drain_soon()
            if not self._try(lambda: self._save(names)):
                for name in names:
                    self.broker.dirty_tables.mark(name)
        self._answer_met()
        self.broker.outbox.drain()

    def _try(self, action: Callable[[], object]) -> bool:
        """Does what the server does in a thread, or as a periodic task; whether it worked."""
        try:
            action()
        except (OSError, FlushFailed):
            if not self.fails:
                raise
            return False
        return True

    def _waits_for(self, kind: type) -> bool:
        return any(isinstance(one, kind) for wait, _ in self._waiting for one in wait.on)

    def _answer_met(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wait, answered in waiting:
            if all(self._is_met(one) for one in wait.on):
                self._ask(wait.then(Outcome(timed_out=False), self.now), answered)
            else:
                self._waiting.append((wait, answered))

    def _is_met(self, condition: object) -> bool:
        if isinstance(condition, Warm):
            # As in the server: where the read fails, the handler meets the failure itself.
            self._try(
                lambda: self.store.reader.read_cold(condition.offset, condition.size_bytes, condition.queue)
            )
            return True
        if isinstance(condition, Durable):
            return self.store.durable_offset >= condition.physical_offset
        return isinstance(condition, Saved) and condition.table not in self.broker.dirty_tables

    def _save(self, names: set[str]) -> None:
        for name in sorted(names):
            file_name, snapshot, _ = self.broker.files[name]
            if name == self.broker.offsets.NAME:
                saved = dict(self.ledger.committed)
                self.store.flushing.flush_now()
                write_text(self._config / file_name, snapshot()(), disk=self.disk)
                for queue_id, offset in saved.items():
                    step = len(self.disk.journal)
                    self.ledger.offsets.append((step, self.store.durable_offset, queue_id, offset))
            else:
                write_text(self._config / file_name, snapshot()(), disk=self.disk)
            if name == self.broker.topics.NAME:
                self.broker.topics.note_saved()

    def pass_ms(self, ms: int) -> None:
        """Lets time pass, and does what is due by then."""
        self.now += ms
        self.disk.now_ms = self.now
        self.sample()
        broker = self.broker
        self._try(self._deliver)
        self.sample()
        self._try(self._timers)
        self._try(self._check_back)
        self._try(partial(broker.run_pop_timers, self.now))
        self._try(self._revive)
        self.turn()
        for task in self.store.periodic_tasks():
            if task.name != "retention" and self._is_due(task.name, task.interval_ms):
                self._try(partial(task.run, self.now))
        for name, interval_ms in ((broker.offsets.NAME, 1_500), (broker.delay.NAME, 1_000)):
            due = self._is_due(name, interval_ms) and broker.dirty_tables.clear(name)
            if due and not self._try(partial(self._save, {name})):
                broker.dirty_tables.mark(name)
        self.turn()

    def _is_due(self, name: str, interval_ms: int) -> bool:
        if self.now < self._due.setdefault(name, self.now + interval_ms):
            return False
        self._due[name] = self.now + interval_ms
        return True

    def _deliver(self) -> None:
        while self.broker.delay.deliver_due(self.now):
            pass

    def _revive(self) -> None:
        while self.broker.revive(self.now):
            pass

    def _check_back(self) -> None:
        while self.broker.check_back.tick(self.now):
            pass

    def _timers(self) -> None:
        for _ in range(10_000):
            step = self.broker.timer.step(self.now)
            self.sample()
            if step.fetch is not None:
                step.fetch()
                self.broker.timer.fetched()
            elif not step.again:
                return
        raise AssertionError("timers have always more to do")

    def work(self, chance: random.Random, actions: int, first: int = 0) -> None:
        """Does so many things at random."""
        for number in range(first, first + actions):
            body = b"%d " % number + chance.randbytes(chance.randrange(40, 1000))
            promise = Promise(body)
            queue_id = chance.randrange(QUEUES)
            match chance.choices(range(11), (5, 3, 3, 3, 3, 3, 7, 2, 3, 3, 3))[0]:
                case 0:
                    self.send(promise, queue_id)
                case 1:
                    level = chance.randrange(1, 4)
                    promise.due_ms = self.now + level * 1_000
                    self.send(promise, queue_id, f"DELAY\x01{level}\x02")
                case 2:
                    promise.due_ms = self.now + chance.randrange(200, LONGEST_WAIT_MS)
                    self.send(promise, queue_id, f"TIMER_DELIVER_MS\x01{promise.due_ms}\x02")
                case 3:
                    promise.is_half = True
                    self.send(promise, queue_id, "TRAN_MSG\x01true\x02PGROUP\x01PG\x02", sys_flag=4)
                case 4:
                    halves = [one for one in self.ledger.promises.values() if one.half is not None]
                    if halves:
                        self.decide(chance.choice(halves), chance.choice((COMMIT, ROLLBACK)))
                case 5:
                    end = self.store.max_offset(TOPIC, queue_id)
                    before = self.ledger.committed.get(queue_id, 0)
                    if end > before:
                        self.commit_offset(queue_id, chance.randint(before, end))
                case 6:
                    self.pass_ms(chance.choice((20, 100, 600)))
                case 7:
                    more = [Promise(b"%d.%d %s" % (number, part, body[-40:])) for part in range(3)]
                    self.send_batch([promise, *more], queue_id)
                case 8:
                    if end := self.store.max_offset(TOPIC, queue_id):
                        self.give_back(queue_id, chance.randrange(end), chance.choice((1, 2, -1)))
                case 9:
                    self.pop(queue_id)
                case 10:
                    if self._in_hand:
                        self.acknowledge(self._in_hand.pop(chance.randrange(len(self._in_hand))))
            if self.sync or chance.random() < 0.5:
                self.turn()
        self.turn()

    # State.

    def found(self, topic: str = TOPIC, queues: int = QUEUES) -> dict[bytes, list[StoredMessage]]:
        """The messages of a topic by body; offsets are dense."""
        by_body: dict[bytes, list[StoredMessage]] = {}
        for queue_id in range(queues):
            records = read_queue(self.store, topic, queue_id)
            assert [record.queue_offset for record in records] == list(range(len(records)))
            assert len(records) == self.store.max_offset(topic, queue_id)
            for record in records:
                by_body.setdefault(record.body, []).append(record)
        return by_body

    def popped(self) -> set[bytes]:
        """The bodies of everything that can be popped."""
        bodies: set[bytes] = set()
        empty = 0
        while empty < 3:  # now the retries are asked first, now the topic
            got: list[Got] = []
            self.pop(-1, 32, got.extend)
            self.turn()
            bodies.update(one.body for one in got)
            empty = 0 if got else empty + 1
        return bodies

    def open_halves(self) -> set[bytes]:
        """The bodies of transactions that nobody has decided."""
        transactions = self.broker.transactions
        bodies, at = set(), 0
        while (offset := transactions.window.next_open(at, transactions.end)) is not None:
            unit = self.store.physical_offset_of(HALF_TOPIC, 0, offset)
            record = None if unit is None else self.store.record_at(unit[0])
            assert record is not None, f"half message {offset} cannot be read"
            bodies.add(decode_record(record).body)
            at = offset + 1
        return bodies


def with_small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer wheel of minutes: one of two weeks has 38 MB, for every crash point anew."""
    monkeypatch.setattr(timer_wheel, "SLOTS", 512)
    monkeypatch.setattr(timer_wheel, "WHEEL_BYTES", 512 * timer_wheel.SLOT_BYTES)
    monkeypatch.setattr(timer_recovery, "LOOK_BACK_MS", 120_000)


def tables_of_broker(
    root: Path, properties: dict[str, object]
) -> list[tuple[str, str, Callable[[str], None]]]:
    """Name, file and reader of every table, of a broker that has no store."""
    from orbitmq.broker.delay.level_delivery import DelayDelivery
    from orbitmq.broker.delay.levels import DelayLevels
    from orbitmq.broker.metadata.groups import GroupTable
    from orbitmq.broker.metadata.topics import TopicTable
    from orbitmq.broker.offset.offsets import OffsetTable
    from orbitmq.handling.dirty_tables import DirtyTables
    from tests.kit.memory_store import MemoryStore
    from tests.kit.world import World

    world = World()
    dirty_tables = DirtyTables()
    tables: list[Any] = [
        TopicTable(world.identity, world.settings, dirty_tables, NOW),
        GroupTable(world.settings, dirty_tables, NOW),
        OffsetTable(dirty_tables, NOW),
        DelayDelivery(DelayLevels(), MemoryStore(), dirty_tables, NOW),
    ]
    return [(table.NAME, table.FILE, table.load_text) for table in tables]


def recorded(root: Path, seed: int, actions: int, **properties: object) -> Recorded:
    """A run from an empty folder, killed at its end."""
    root.mkdir(parents=True, exist_ok=True)
    run = Recorded(RecordedDisk(root), **properties)
    run.work(random.Random(seed), actions)
    run.kill()
    return run


def check_after(
    run: Recorded, disk: RecordedDisk, step: int, *, power: bool, thorough: bool, now: int = 0
) -> Recorded:
    """Opens what is left after a step and holds it against what was promised until then; at once, or at a
    later time.
    """
    sample = run.ledger.sample_at(step)
    again = Recorded(disk, max(now, sample.now) + 50, **run.properties)
    try:
        _check(run, again, sample, step, power)
        if thorough:
            _check_going_on(again)
    finally:
        again.kill()
    return again


def _check(run: Recorded, again: Recorded, sample: Sample, step: int, power: bool) -> None:
    is_lossy = power and not run.sync

    def holds(at: int | None, end: int) -> bool:
        return at is not None and at <= step and (not is_lossy or end <= sample.durable)

    def check_kept(promise: Promise, name: str, copies: list[StoredMessage]) -> None:
        assert len(copies) <= 1, f"{name} is there {len(copies)} times"
        if holds(promise.acked_at, promise.end):
            assert copies, f"{name} was acknowledged and is lost"
        elif is_lossy and promise.acked_at is not None and promise.acked_at <= step and not copies:
            age = sample.now - promise.acked_ms
            assert age <= sample.unflushed_ms, f"{name} is lost, {age} ms old, {sample.unflushed_ms} said"
        if promise.due_ms and copies:
            early = promise.due_ms - copies[0].store_timestamp
            assert early <= 0, f"{name} came {early} ms early"

    if power:
        lost_bytes = sample.end - again.store.max_physical
        assert lost_bytes <= max(0, sample.unflushed_bytes), (
            f"{lost_bytes} bytes lost, {sample.unflushed_bytes} said"
        )
    again._timers()
    while again.broker.delay.deliver_due(again.now):
        pass
    still_open = again.open_halves()
    again.pass_ms(LONGEST_WAIT_MS + 3_000)
    again.pass_ms(1_000)
    found = again.found()
    for body, promise in run.ledger.promises.items():
        name = body.split()[0]
        if promise.is_half:
            assert len(found.get(body, [])) <= 1, f"{name!r} is there more than once"
            _check_transaction(promise, name, body in found, body in still_open, holds)
            continue
        check_kept(promise, f"{name!r}", found.get(body, []))
    assert set(found) <= set(run.ledger.promises), "something came that nobody sent"
    given_back = {topic: again.found(topic, 1) for topic in (RETRIES, DEAD)}
    for (topic, body), promise in run.ledger.given_back.items():
        check_kept(promise, f"{body.split()[0]!r} of {topic}", given_back[topic].get(body, []))
    came = {(topic, body) for topic, bodies in given_back.items() for body in bodies}
    assert came <= set(run.ledger.given_back), "something came again that nobody gave back"
    _check_order(run, again)
    _check_pops(run, again, set(found), step)
    _check_offsets(run, again, step)
    _check_index(again, [body for body in found if not run.ledger.promises[body].due_ms][:3])


def _check_transaction(
    promise: Promise, name: bytes, is_there: bool, is_open: bool, holds: Callable[[int | None, int], bool]
) -> None:
    if promise.decision is None or promise.decision == ROLLBACK:
        assert not is_there, f"{name!r} was never committed and is published"
    if not holds(promise.acked_at, promise.end):
        return
    if promise.decision is None:
        assert is_open, f"{name!r} is undecided and nobody will be asked"
    if holds(promise.decided_at, promise.decided_end):
        assert is_there == (promise.decision == COMMIT), f"the decision about {name!r} is lost"
        assert not is_open, f"{name!r} is decided and somebody will be asked"


def _check_order(run: Recorded, again: Recorded) -> None:
    """Messages sent without a delay are in their queue as they were sent."""
    for queue_id in range(QUEUES):
        bodies = [record.body for record in read_queue(again.store, TOPIC, queue_id)]
        sent = [run.ledger.promises[body] for body in bodies]
        numbers = [
            (int(number), int(part or 0))
            for number, _, part in (
                one.body.split()[0].decode().partition(".") for one in sent if not (one.due_ms or one.is_half)
            )
        ]
        assert numbers == sorted(numbers), f"queue {queue_id} is out of order: {numbers}"


def _check_pops(run: Recorded, again: Recorded, there: set[bytes], step: int) -> None:
    """Messages that nobody has acknowledged can be popped, whoever had them in hand."""
    done = {body for body, at in run.ledger.popped_away.items() if at <= step}
    # Before a send is answered its topic may be in no file yet.
    acked = {
        body
        for body, promise in run.ledger.promises.items()
        if promise.acked_at is not None and promise.acked_at <= step
    }
    starved = (there & acked) - done - again.popped()
    assert not starved, f"{sorted(body.split()[0] for body in starved)} cannot be popped any more"


def _check_offsets(run: Recorded, again: Recorded, step: int) -> None:
    for queue_id in range(QUEUES):
        saved = [offset for at, _, queue, offset in run.ledger.offsets if at <= step and queue == queue_id]
        loaded = again.broker.offsets.get(GROUP, TOPIC, queue_id)
        if saved:
            assert loaded >= saved[-1], (
                f"the offset of queue {queue_id} went back from {saved[-1]} to {loaded}"
            )
        if loaded > 0:
            assert loaded <= again.store.max_offset(TOPIC, queue_id), "an offset beyond its queue"


def _check_index(again: Recorded, bodies: list[bytes]) -> None:
    for body in bodies:
        name = body.split()[0].decode()
        records = query(again.store, TOPIC, name, 5, 0, 1 << 60, "U").records
        assert [decode_record(record).body for record in records] == [body], f"{name} is not in the index"


def _check_going_on(again: Recorded) -> None:
    """It takes more, and what it says stays true over an orderly stop."""
    promise = Promise(b"more than before")
    ends = [again.store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES)]
    again.send(promise, 0)
    again.turn()
    assert promise.acked_at is not None
    assert again.store.max_offset(TOPIC, 0) == ends[0] + 1
    before = {body: len(records) for body, records in again.found().items()}
    again.close()
    then = Recorded(again.disk, again.now + 10, **again.properties)
    try:
        then.pass_ms(100)
        assert {body: len(records) for body, records in then.found().items()} == before
        assert not then.store.recovered.cut_bytes
    finally:
        then.kill()


__all__ = ["NOW", "Ledger", "Promise", "Recorded", "SendMessageV2", "check_after", "recorded"]
