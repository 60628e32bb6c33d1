"""If memory ends between what is stored and what is noted of it, nothing is delivered twice, or lost.

Each allocation of a turn fails once, and in another run so do the fifty after it; the turn that follows has
memory again. If a store could not even take back what it had begun, it takes nothing more until it is
opened again: so it is, after a crash.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.pop import AckMessage
from orbitmq.protocol.requests.send import SendReply
from orbitmq.protocol.schema.declare import Request
from orbitmq.store import MessageStore, PendingMessage
from tests.kit.own_process import in_own_process
from tests.kit.pop import GROUP, TOPIC, PopWorld
from tests.kit.real_broker import RealBroker, message
from tests.kit.store import HOST, NOW, bodies, crash, opened
from tests.kit.timer_world import TimerWorld
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, Transacting

# From Python 3.12 on the interpreter itself fails with SystemError there where an allocation is made to fail.
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="needs Python 3.11")

MOST_TRIED = 4_000
ENOUGH = 12
"""A turn that went well so often, though ever later allocations were to fail, has fewer of them."""

several_fail = pytest.mark.parametrize("failing", [1, 50])


def fails(turn: Callable[[], object], at: int, failing: int) -> bool:
    """True if a turn notices that some allocations fail, from a number on."""
    testcapi: Any = pytest.importorskip("_testcapi", reason="NOT RUN: this Python has no _testcapi")
    testcapi.set_nomemory(at, at + failing)
    try:
        turn()
    except (MemoryError, Refused):
        return True
    except (TypeError, SystemError) as error:
        # The interpreter loses some: os.open for one says that the path is none.
        if "os.PathLike" not in str(error) and "without exception set" not in str(error):
            raise
        return True
    finally:
        testcapi.remove_mem_hooks()
    return False


class World(Protocol):
    """Rules over a store."""

    @property
    def is_writable(self) -> bool: ...
    def crash(self) -> None: ...
    def prepare(self, number: int) -> None: ...
    def act(self) -> None: ...


def try_each(world: World, failing: int) -> None:
    """Has ever later allocations of a turn fail, each time with something new to do, and lets it be done."""
    unnoticed = noticed = at = 0
    while unnoticed < ENOUGH:
        world.prepare(at)
        if fails(world.act, at, failing):
            noticed += 1
            unnoticed = 0
        else:
            unnoticed += 1
        if not world.is_writable:
            world.crash()
        world.act()
        at += 1 + failing // 5
        assert at < MOST_TRIED
    assert noticed * (1 + failing // 5) > 10, "many allocations were tried"


class Delays:
    """Delayed messages over a real store. Deliveries are in no file: it is recognised in the log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.levels = DelayLevels("1s 2s")
        self.now = NOW
        self.saved = ""
        self.sent: Counter[bytes] = Counter()
        self.start()

    def start(self) -> None:
        self.store: MessageStore = opened(self.root, self.now, message_delay_level="1s 2s")
        self.delay = DelayDelivery(self.levels, self.store, DirtyTables(), self.now)
        if self.saved:
            self.delay.load_text(self.saved)
        self.delay.start()
        self.saved = self.saved or self.delay.snapshot()()

    @property
    def is_writable(self) -> bool:
        return self.store.is_writable

    def crash(self) -> None:
        crash(self.store)
        self.start()

    def prepare(self, number: int) -> None:
        for part, level in enumerate((1, 2, 1)):
            rerouted = self.levels.reroute("T", 0, {"DELAY": str(level)}, self.now)
            assert rerouted is not None
            body = b"%d-%d" % (number, part)
            self.sent[body] += 1
            waiting = PendingMessage(
                rerouted.topic, rerouted.queue_id, 0, 0, self.now, HOST, HOST, 0, 0, body,
                encode_properties(rerouted.properties), rerouted.tags_code,
            )  # fmt: skip
            self.store.append(waiting, self.now)
        self.now += 3000

    def act(self) -> None:
        while self.delay.deliver_due(self.now):
            pass

    def came(self) -> Counter[bytes]:
        return Counter(bodies(self.store))


@several_fail
@in_own_process
def test_delayed_messages_come_once(tmp_path: Path, failing: int) -> None:
    world = Delays(tmp_path)
    try_each(world, failing)
    assert world.came() == world.sent
    world.crash()
    world.act()
    assert world.came() == world.sent, "nor after a crash"
    world.store.close()


@in_own_process
def test_delayed_messages_that_came_before_a_crash_are_recognised_once(tmp_path: Path) -> None:
    class Crashing(Delays):
        def prepare(self, number: int) -> None:
            super().prepare(2 * number)
            self.act()
            super().prepare(2 * number + 1)
            self.crash()
            # The next crash need not know of it.
            self.saved = ""

    world = Crashing(tmp_path)
    for at in range(0, 300, 7):
        world.saved = world.delay.snapshot()()
        world.prepare(at)
        fails(world.act, at, 1)
        world.act()
        world.store.flushing.flush_now()
        world.act()
    assert world.came() == world.sent
    world.store.close()


class Timing(TimerWorld):
    """Timers that are taken in, due at once, and delivered."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.all: list[str] = []

    @property
    def is_writable(self) -> bool:
        return self.store.is_writable

    def crash(self) -> None:
        self.kill()
        self.start()

    def _send(self, *delays_ms: int) -> None:
        for delay_ms in delays_ms:
            self.all.append(f"{len(self.all)}")
            self.send(self.all[-1], TIMER_DELAY_MS=delay_ms)

    def prepare(self, number: int) -> None:
        self._send(300, 1300, 1300, 2600, 40)
        # The last one is over before it is taken in.
        self.now += 100
        if number % 2:
            self.work()
            self._send(300)
            self.now += 1900

    def act(self) -> None:
        for _ in range(1000):
            step = self.timer.step(self.now)
            if step.fetch is not None:
                try:
                    step.fetch()
                finally:
                    self.timer.fetched()
            elif not step.again:
                return


@several_fail
@in_own_process
def test_timers_come_once(tmp_path: Path, failing: int) -> None:
    world = Timing(tmp_path / "store")
    try_each(world, failing)
    world.run(world.now + 5000)
    assert Counter(world.bodies()) == Counter(world.all)
    world.flush()
    world.crash()
    world.run(world.now + 2000)
    assert Counter(world.bodies()) == Counter(world.all), "nor after a crash"
    world.store.close()


class Deciding(Transacting):
    """Half messages of which one is committed and one rolled back."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, transactionCheckMax=100_000)
        self.expected: list[bytes] = []
        self.undecided: list[tuple[SendReply, int]] = []

    @property
    def is_writable(self) -> bool:
        return self.real.store.is_writable

    has_crashed = False

    def crash(self) -> None:
        self.has_crashed = True
        self.kill()

    def prepare(self, number: int) -> None:
        self.has_crashed = False
        self.undecided = [(self.half(), COMMIT), (self.half(), ROLLBACK)]
        self.expected.append(b"body %d" % (self.number - 1))

    def act(self) -> None:
        for sent, decision in self.undecided:
            try:
                self.decide(sent, decision)
            except Refused as refused:
                # Decided before a crash: nobody knows any more how.
                if not (self.has_crashed and "ended already" in refused.remark):
                    raise


def in_one_read(requests: Sequence[Request[Any]]) -> bytes:
    """The frames of requests, back to back."""
    return b"".join(encode_command(request.to_command(opaque)) for opaque, request in enumerate(requests))


class DecidingInOneRead(Deciding):
    """The same, with the half messages in one read and the decisions in another."""

    decisions = b""

    def prepare(self, number: int) -> None:
        self.has_crashed = False
        self.number += 2
        halves = [
            message(
                properties=f"UNIQ_KEY\x01ID{one:06d}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
                born_timestamp=self.now,
                sys_flag=4,
                body=b"body %d" % one,
            )
            for one in (self.number - 1, self.number)
        ]
        stored = self.real.read(in_one_read(halves), self.now)
        committed, rolled_back = (
            SendReply.from_command(Command(code, opaque, 1, fields))
            for opaque, (code, fields, _) in sorted(stored.items())
        )
        self.decisions = in_one_read([self.request(committed, COMMIT), self.request(rolled_back, ROLLBACK)])
        self.expected.append(b"body %d" % (self.number - 1))

    def act(self) -> None:
        for code, _, remark in self.real.read(self.decisions, self.now).values():
            if code and not (self.has_crashed and "ended already" in (remark or "")):
                raise Refused(code, remark or "")


@several_fail
@pytest.mark.parametrize("kind", [Deciding, DecidingInOneRead])
@in_own_process
def test_what_is_committed_is_published_once(tmp_path: Path, failing: int, kind: type[Deciding]) -> None:
    world = kind(tmp_path / "store")
    try_each(world, failing)
    assert sorted(world.bodies()) == sorted(world.expected)
    assert world.open_halves() == []
    assert world.broker.transactions.figures.open == {}
    world.tick()
    world.save()
    world.kill()
    world.pass_ms(2 * INTERVAL)
    assert world.open_halves() == []
    assert world.asked == []
    assert sorted(world.bodies()) == sorted(world.expected)
    world.close()


class Asking(Deciding):
    """Half messages about which producers are asked again and again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.kept = [self.half() for _ in range(3)]

    def prepare(self, number: int) -> None:
        self.now += INTERVAL + 1000

    def act(self) -> None:
        self.tick()
        ids = sorted(half.unique_id for half in self.open_halves())
        assert ids == [one.transaction_id for one in self.kept], "each has one open copy"


@several_fail
@in_own_process
def test_half_messages_that_are_copied_stay_one(tmp_path: Path, failing: int) -> None:
    world = Asking(tmp_path / "store")
    try_each(world, failing)
    for one in world.kept:
        world.decide(one, COMMIT, from_transaction_check=True)
    assert sorted(world.bodies()) == [b"body 1", b"body 2", b"body 3"]
    assert world.open_halves() == []
    world.close()


class Popping(PopWorld):
    """Two messages are popped at a time: one is acknowledged, the other comes again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, {"reviveQueueNum": 1, "enablePopBufferMerge": False}, queues=1)
        self.kept: list[bytes] = []

    @property
    def is_writable(self) -> bool:
        return self.store.is_writable

    def crash(self) -> None:
        self.restart(kill=True)

    def prepare(self, number: int) -> None:
        _, kept = self.send(2)
        self.kept.append(kept)
        # Repeated messages from before are among them.
        for got in self.pop(invisible_time=1000):
            if got.body != kept:
                self.ack(got)
        # Everything is due; nobody has looked yet.
        for _ in range(6):
            self.now += 1000
            self._deliver_timers()

    def act(self) -> None:
        while self.broker.revive(self.now):
            pass


@in_own_process
def test_what_is_revived_is_what_was_not_acknowledged_and_once(tmp_path: Path) -> None:
    world = Popping(tmp_path / "store")
    # The topic of what comes again is made by the first one.
    world.prepare(0)
    world.step()
    try_each(world, 1)
    assert bodies(world.store, f"%RETRY%G_{TOPIC}") == world.kept
    world.close()


class Acknowledging(Popping):
    """Messages are popped, and acknowledged in one read."""

    acks = b""

    def prepare(self, number: int) -> None:
        self.send(3)
        popped = self.pop(invisible_time=60_000)
        assert len(popped) == 3
        self.acks = in_one_read(
            [AckMessage(GROUP, got.topic, 0, got.handle.to_text(), got.record.queue_offset) for got in popped]
        )
        self.save()

    def act(self) -> None:
        for code, _, remark in self.real.read(self.acks, self.now).values():
            if code:
                raise Refused(code, remark or "")


@several_fail
@in_own_process
def test_what_was_acknowledged_does_not_come_again(tmp_path: Path, failing: int) -> None:
    world = Acknowledging(tmp_path / "store")
    world.prepare(0)
    world.act()  # the queue of the timers is there from now on
    try_each(world, failing)
    world.wait(70_000)
    assert world.pop() == []
    world.close()


class Sending:
    """Three messages in one read, for two queues."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real = RealBroker(root)
        for queue_id in (0, 1):
            self.real.send(queue_id=queue_id)
        self.real.broker.topics.note_saved()
        self.sent: list[bytes] = []
        self.read = b""
        self.told: list[Any] = []

    @property
    def is_writable(self) -> bool:
        return self.real.store.is_writable

    def crash(self) -> None:
        saved = {name: snapshot()() for name, (_, snapshot, _) in self.real.broker.files.items()}
        self.real.store.abandon()
        self.real = RealBroker(self.root, files=saved)

    def prepare(self, number: int) -> None:
        self.real.store.arrivals.drain()
        bodies = [b"%d %d" % (number, one) for one in range(3)]
        self.sent += bodies
        self.read = in_one_read([message(queue_id=one % 2, body=body) for one, body in enumerate(bodies)])

    def act(self) -> None:
        for code, _, remark in self.real.read(self.read).values():
            if code:
                raise Refused(code, remark or "")


@several_fail
@in_own_process
def test_what_was_sent_is_in_its_queue_and_is_told(tmp_path: Path, failing: int) -> None:
    world = Sending(tmp_path / "store")
    try_each(world, failing)
    told = {arrival[1]: arrival[2] for arrival in world.real.store.arrivals.drain()}
    found = []
    for queue_id in (0, 1):
        end = world.real.store.max_offset(TOPIC, queue_id)
        assert told[queue_id] == end
        for offset in range(end):
            record = world.real.stored(TOPIC, queue_id, offset)
            assert (record.queue_id, record.queue_offset) == (queue_id, offset)
            found.append(record.body)
    assert set(found) >= set(world.sent)
    world.real.close()
