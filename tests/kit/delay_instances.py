"""Several instances of a delay service over the queues of a source: crashes, pauses, a lease that moves."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from zlib import crc32

from orbitmq.delay_service.rules.delivery import Delivery, Outgoing, Result, Sent
from orbitmq.delay_service.rules.intake import Intake, Queue, SourceMessage
from orbitmq.delay_service.rules.lanes import Lanes
from orbitmq.delay_service.rules.sharing import RECORD, Begin, Claim, Done, Holder, Sharing
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Content
from orbitmq.delay_service.store.store import DelayStore
from tests.kit.delay_world import KNOWN, message

QUEUES = [Queue("main", "orbitmq_delay", f"broker-a:{n}") for n in range(2)]
SECRET = b"s" * 32


class Instance:
    """One instance: its own store, and its places in the queues."""

    def __init__(self, world: Cluster, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.paused_until = 0
        self.open()

    def open(self) -> None:
        self.store = DelayStore(self.folder)
        self.lanes = Lanes(self.store)
        self.intake = Intake(self.store, self.lanes, KNOWN)
        self.delivery = Delivery(self.store, self.lanes, KNOWN)
        self.intake.sharing = self.sharing = Sharing(self.store, self.lanes, self.delivery)
        self.sharing.secret = SECRET
        self.holder = Holder(self.store, self.lanes, self.delivery, self.sharing)
        self.holder.present = {str(queue) for queue in QUEUES}
        self.batches: list = []
        self.again: dict[int, list[Outgoing]] = {}
        self.asked: set[str] = set()

    def crash(self) -> None:
        self.store._db.close()
        self.open()

    def read(self, most: int) -> None:
        for queue in QUEUES:
            position = self.intake.position(queue) or 0
            found = [one for one in self.world.logs[queue] if one.offset >= position][:most]
            if found:
                self.intake.take(queue, found, found[-1].offset + 1, self.world.now)

    def lead(self, term: int) -> None:
        self.holder.lead(term)
        self.batches.clear()
        self.again.clear()
        self.asked.clear()

    def step_down(self) -> None:
        self.holder.step_down()
        self.batches.clear()
        self.again.clear()

    def work(self, most: int) -> None:
        """What the holder does: begins its term, claims, sends."""
        holder, world = self.holder, self.world
        for queue in sorted(holder.present - holder.begun - self.asked):
            self.asked.add(queue)
            world.write(queue, holder.begin(queue))
        for lane in list(self.lanes):
            if lane.number in self.again and lane.paused_until <= world.now:
                self.send(lane, self.again.pop(lane.number))
        while (lane := self.lanes.due(world.now)) is not None:
            batch = holder.take(lane, world.now, most)
            if batch is None:
                self.lanes.changed(lane)
                if lane.wakes_at is not None and lane.wakes_at <= world.now:
                    break
                continue
            for number, queue, body in batch.writes:
                if not world.write(queue, body, may_fail=True):
                    holder.failed(batch, number, queue)
                    self.asked.discard(queue)
            self.batches.append(batch)
        for batch in [one for one in self.batches if not one.open]:
            self.batches.remove(batch)
            messages = holder.claimed(batch, world.now)
            if messages:
                self.send(batch.lane, messages)

    def send(self, lane, batch: list[Outgoing]) -> None:
        world = self.world
        if world.lease != (self, self.holder.term):
            return  # the check right before a send
        target = str(lane.target)
        fate = world.down.get(target, Result.SENT)
        if fate is Result.SENT or (fate is Result.FAILED and world.chance.random() < 0.5):
            world.sent += [(world.now, target, one) for one in batch]
        if fate is Result.FAILED:
            world.may_repeat.update(ident(one) for one in batch)
        world.crash_here()
        again, writes = self.holder.sent(lane, batch, [Sent(fate, "as told")] * len(batch), world.now)
        for queue, body in writes:
            world.write(queue, body)
        if again:
            self.again[lane.number] = again


def ident(one: Outgoing) -> tuple:
    """A message, the same in every instance."""
    _, due, _, offset, kind = keys.read_pending_key(one.key)
    return due, offset, kind


class Crash(BaseException):
    """The process ends here."""


class Cluster:
    """Instances, and the source that they share. A run is the outcome of its seed."""

    def __init__(self, folder: Path, seed: int, number: int = 3) -> None:
        self.chance = random.Random(seed)
        self.now = 1_700_000_000_000
        self.logs: dict[Queue, list[SourceMessage]] = {queue: [] for queue in QUEUES}
        self.log: list[SourceMessage] = []
        """Orders alone."""
        self.sent: list[tuple[int, str, Outgoing]] = []
        self.down: dict[str, Result] = {}
        self.may_repeat: Counter[tuple] = Counter()
        self.open_claims: dict[str, set[tuple]] = {str(queue): set() for queue in QUEUES}
        self.terms: dict[str, int] = {}
        self.happened: Counter[str] = Counter()
        self.term = self.offset = 0
        self.crashes_after = 0
        self.instances = [Instance(self, folder / str(n)) for n in range(number)]
        self.lease: tuple[Instance, int] | None = None

    def send(self, body: bytes, /, **control: object) -> None:
        queue = QUEUES[crc32(str(control.get("id")).encode()) % len(QUEUES)]
        one = message(self._next(), self.now, body, **control)
        self.logs[queue].append(one)
        self.log.append(one)

    def _next(self) -> int:
        self.offset += 1
        return self.offset

    def write(self, queue: str, body: bytes, *, may_fail: bool = False) -> bool:
        """A record is written; False if its writer does not learn of it, or it fails."""
        fails = may_fail and self.chance.random() < 0.05
        if fails and self.chance.random() < 0.5:
            return False
        place = next(one for one in QUEUES if str(one) == queue)
        self.logs[place].append(SourceMessage(self._next(), self.now, {RECORD: "1"}, Content(body, {}), ""))
        self._note(queue, body)
        return not fails

    def _note(self, queue: str, body: bytes) -> None:
        """What may be sent twice: claims without a fate as the next term begins."""
        record = self.instances[0].sharing.read(queue, body)
        if record.term < self.terms.get(queue, 0):
            return
        if isinstance(record, Begin) and record.term > self.terms.get(queue, 0):
            self.may_repeat.update(self.open_claims[queue])
        elif isinstance(record, Claim):
            self.open_claims[queue].update(record.places)
        elif isinstance(record, Done):
            self.open_claims[queue].difference_update(one.place for one in record.fates)
        self.terms[queue] = record.term

    def crash_here(self) -> None:
        self.crashes_after -= 1
        if self.crashes_after == 0:
            raise Crash

    def elect(self) -> None:
        """The lease goes to one that is awake; the one before learns of it before it sends again."""
        awake = [one for one in self.instances if one.paused_until <= self.now]
        if awake:
            self.term += 1
            self.lease = (self.chance.choice(awake), self.term)
            self.lease[0].lead(self.term)
            self.happened["elected"] += 1

    def step(self, most: int = 5, *, calm: bool = False) -> None:
        lost = self.lease is None or self.lease[0].paused_until > self.now
        if lost or (not calm and self.chance.random() < 0.02):
            self.elect()
        for one in self.instances:
            if one.paused_until > self.now:
                continue
            if one.holder.term and self.lease != (one, one.holder.term) and self.chance.random() < 0.5:
                one.step_down()
            if not calm and self.chance.random() < 0.02:
                one.paused_until = self.now + self.chance.choice((500, 5000))
                self.happened["paused"] += 1
                continue
            self.crashes_after = (
                self.chance.randrange(1, 4) if not calm and self.chance.random() < 0.05 else 0
            )
            try:
                one.read(1000 if calm else self.chance.randrange(1, 8))
                if one.holder.term:
                    one.work(most)
            except Crash:
                self.happened["crashed"] += 1
                one.crash()
                if self.lease is not None and self.lease[0] is one:
                    self.lease = None

    def close(self) -> None:
        for one in self.instances:
            one.store.close()
