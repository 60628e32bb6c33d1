"""A delay service without network and clock: source queues, targets, crashes, power cuts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from orbitmq.delay_service.rules.delivery import Delivery, Outgoing, Result, Sent
from orbitmq.delay_service.rules.intake import Intake, Queue, SourceMessage
from orbitmq.delay_service.rules.lanes import Lanes
from orbitmq.delay_service.rules.targets import Known, Target
from orbitmq.delay_service.store.records import Content
from orbitmq.delay_service.store.store import FOLDER, MARK, DelayStore

SOURCE = Target("main", "orbitmq_delay")
QUEUE = Queue("main", "orbitmq_delay", "broker-a:0")
KNOWN = Known(
    {"main": False, "events": True},
    frozenset({SOURCE, Target("events", "orbitmq_delay")}),
    "orbitmq_delay_dead",
)


def message(offset: int, now: int, body: bytes = b"b", /, **control: object) -> SourceMessage:
    given = {f"delay.{name.replace('_', '-')}": str(value) for name, value in control.items()}
    return SourceMessage(offset, now, given, Content(body, {"p": "1"}))


class DelayWorld:
    """One service over a folder. `now` moves by hand; each send is recorded."""

    def __init__(self, folder: Path, *, keeps_synced_copy: bool = False) -> None:
        self.folder = folder
        self.synced = folder.with_name(folder.name + ".synced") if keeps_synced_copy else None
        self.now = 1_700_000_000_000
        self.log: list[SourceMessage] = []
        """The source's only queue."""
        self.sent: list[tuple[int, str, Outgoing]] = []
        """Time, target and message of each send that the target stored."""
        self.down: dict[str, Result] = {}
        """Fate of sends to a target, if they fail."""
        self.flying: list[bytes] = []
        """Keys of the batch whose fate is not recorded yet."""
        self.again: dict[int, list[Outgoing]] = {}
        self.copied = -1
        """Number of the last write that the synced copy holds."""
        self.open()

    def open(self) -> None:
        self.store = DelayStore(self.folder)
        self.lanes = Lanes(self.store)
        self.intake = Intake(self.store, self.lanes, KNOWN)
        self.delivery = Delivery(self.store, self.lanes, KNOWN)
        self.again.clear()
        self.sync()

    def sync(self) -> None:
        if self.synced is None:
            return
        self.store.sync()
        written = self.store._db.latest_sequence_number()
        if written != self.copied:
            self.copied = written
            shutil.rmtree(self.synced, ignore_errors=True)
            self.synced.mkdir()
            self.store.checkpoint(self.synced / FOLDER)
            (self.synced / MARK).write_text("")

    def crash(self) -> None:
        """The process ends: what was written is there."""
        self.store._db.close()

    def power_cut(self) -> None:
        """The machine ends: what was not synced is gone."""
        self.store._db.close()
        assert self.synced is not None
        shutil.rmtree(self.folder)
        shutil.copytree(self.synced, self.folder)

    def send(self, body: bytes = b"b", /, **control: object) -> SourceMessage:
        one = message(len(self.log), self.now, body, **control)
        self.log.append(one)
        return one

    def take_in(self, most: int = 1000) -> int:
        """Reads the source from the position on."""
        begin = self.intake.position(QUEUE) or 0
        found = self.log[begin : begin + most]
        if found:
            self.intake.take(QUEUE, found, begin + len(found), self.now)
            self.sync()
        return len(found)

    def deliver(self, most: int = 512) -> int:
        """Sends what is due now, and gives the number of messages that were stored."""
        count = 0
        for lane in list(self.lanes):
            if lane.number in self.again and lane.paused_until <= self.now:
                count += self._send(lane, self.again.pop(lane.number), most)
        while (lane := self.lanes.due(self.now)) is not None:
            batch = self.delivery.take(lane, self.now, most)
            if batch:
                self.sync()
                count += self._send(lane, batch, most)
        return count

    def _send(self, lane, batch: list[Outgoing], most: int) -> int:
        """Sends a batch, and those that are claimed meanwhile."""
        count = 0
        while batch:
            self.flying = [one.key for one in batch]
            fate = self._sends(lane, batch)
            ahead = []
            if self.delivery.may_claim_ahead(lane, self.now):
                ahead = self.delivery.take(lane, self.now, most)
                self.sync()
            again = self.delivery.done(lane, batch, [Sent(fate, "as told")] * len(batch), self.now)
            self.sync()
            self.flying = []
            count += len(batch) if fate is Result.SENT else 0
            if again:
                self.again[lane.number] = again
            batch = ahead
            lane.busy = bool(again or ahead)
            if again or lane.failures:
                self.delivery.release(lane, ahead)
                lane.busy = bool(again)
                self.lanes.changed(lane)
                break
        return count

    def _sends(self, lane, batch: list[Outgoing]) -> Result:
        """The fate of a batch."""
        fate = self.down.get(str(lane.target), Result.SENT)
        if fate is Result.SENT:
            self.sent += [(self.now, str(lane.target), one) for one in batch]
        return fate

    def run(self, ms: int, step: int = 100) -> None:
        """Time passes."""
        end = self.now + ms
        while self.now < end:
            self.now += step
            self.take_in()
            self.deliver()

    def bodies(self, target: str) -> list[bytes]:
        return [one.pending.content.body or b"" for _, to, one in self.sent if to == target]

    def outcomes(self, target: str = "main/replies") -> list[tuple[str, str]]:
        return [(one.pending.name, one.pending.outcome) for _, to, one in self.sent if to == target]

    def reasons(self) -> list[str]:
        return [one.pending.reason for _, to, one in self.sent if to.endswith("/orbitmq_delay_dead")]


def closed(worlds: Iterable[DelayWorld]) -> None:
    for world in worlds:
        world.store.close()
