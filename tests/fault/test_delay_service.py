"""The delay service under kills, power cuts, failing targets and clocks that are set.

Nothing comes early, is lost, or comes wrongly twice.

A run is the outcome of its seed. Orders come through one queue; every order asks for a reply, and the replies
say what may and what may not have been delivered.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import ExitStack

import pytest

from orbitmq import failpoints
from orbitmq.delay_service.rules.delivery import Result
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Kind
from tests.kit.delay_world import DelayWorld

POINTS = (
    "delay.write",
    "delay.intake",
    "delay.taken",
    "delay.claimed",
    "delay.sent",
    "delay.done",
    "delay.sync",
)
TARGETS = ("a", "b", "events/c")


class Crash(BaseException):
    """The process ends here."""


class Run(DelayWorld):
    """A world that fails by chance."""

    def __init__(self, folder, seed: int, *, power: bool) -> None:
        self.chance = random.Random(seed)
        self.power = power
        self.may_repeat: Counter[bytes] = Counter()
        """Times that a message was on its way as something broke."""
        self.crashes: Counter[str] = Counter()
        super().__init__(folder, keeps_synced_copy=power)

    def _sends(self, lane, batch):
        target = str(lane.target)
        fate = self.down.get(target, Result.SENT)
        stored = fate is Result.SENT or (fate is Result.FAILED and self.chance.random() < 0.5)
        if stored:
            self.sent += [(self.now, target, one) for one in batch]
        if fate is Result.FAILED:
            self.may_repeat.update(self.flying)
        if self.chance.random() < 0.3:
            self._order()
            self.take_in(1)
        return fate

    def broken(self, point: str) -> None:
        self.crashes[point] += 1
        self.may_repeat.update(self.flying)
        for batch in self.again.values():
            self.may_repeat.update(one.key for one in batch)
        self.flying = []
        if self.power:
            self.power_cut()
        else:
            self.crash()
        self.open()

    def episode(self, steps: int) -> None:
        latest = self.now
        for _ in range(steps):
            self._order()
            self.now += self.chance.choice((0, 10, 100, 400))
            if self.chance.random() < 0.05:  # somebody sets the clock
                self.now += self.chance.choice((-600_000, -1000, 1000, 600_000))
            latest = max(latest, self.now)
            if self.chance.random() < 0.1:
                target = self.chance.choice(("main/a", "main/b", "events/c"))
                self.down[target] = self.chance.choice((Result.FAILED, Result.NOT_SENT, Result.SENT))
            self._go()
        self.down.clear()
        self.now = latest
        for _ in range(60):
            self.now += 1000
            self._go()

    def _order(self) -> None:
        name = f"n{self.chance.randrange(8)}"
        after = f"{self.chance.choice((0, 50, 300, 900, 3000))}ms"
        action = self.chance.choice(("schedule", "schedule", "cancel", "move"))
        body = b"%d" % len(self.log)
        target = self.chance.choice(TARGETS)
        if action == "schedule":
            self.send(body, topic=target, after=after, id=name, reply="replies")
        elif action == "cancel":
            self.send(body, action=action, id=name, reply="replies")
        else:
            self.send(body, action=action, after=after, id=name, reply="replies")

    def _go(self) -> None:
        point = self.chance.choice(POINTS)
        left = self.chance.randrange(1, 6)

        def hit() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        try:
            with ExitStack() as stack:
                if self.chance.random() < 0.3:
                    stack.enter_context(failpoints.armed_point(point, hit))
                self.take_in(self.chance.randrange(1, 4))
                self.deliver(self.chance.choice((1, 3, 512)))
        except Crash:
            self.broken(point)


def check(run, ident=lambda one: one.key) -> None:
    """Checks a run of one instance, or of several; `ident` tells a message in all of them."""
    outcomes: dict[int, set[str]] = defaultdict(set)
    delivered: dict[bytes, list[int]] = defaultdict(list)
    """Due times by body."""
    times = Counter()
    for now, _, one in run.sent:
        if one.kind == Kind.REPLY:
            outcomes[keys.read_pending_key(one.key)[3]].add(one.pending.outcome)
        elif one.kind == Kind.MESSAGE:
            assert now >= one.pending.due, "early"
            delivered[one.pending.content.body].append(one.pending.due)
            times[ident(one)] += 1
    for key, number in times.items():
        assert number <= 1 + run.may_repeat[key], "twice without need"
    alive: dict[str, tuple[bytes, int]] = {}
    must: set[bytes] = set()
    must_not: set[bytes] = set()
    due_of: dict[bytes, int] = {}
    for order in run.log:
        name = order.control["delay.id"]
        assert len(outcomes[order.offset]) == 1, (order.offset, outcomes[order.offset])
        (outcome,) = outcomes[order.offset]
        before = alive.get(name)
        due = order.stored + int(order.control.get("delay.after", "0ms")[:-2])
        if outcome in ("scheduled", "replaced"):
            if before is not None:
                # A message that could not leave after all may be replaced after an answer of too-late.
                must.discard(before[0])
                (must_not if outcome == "replaced" else must).add(before[0])
            assert before is not None or outcome == "scheduled"
            alive[name] = (order.content.body, due)
            due_of[order.content.body] = due
        elif outcome == "cancelled":
            must.discard(before[0])
            must_not.add(alive.pop(name)[0])
        elif outcome == "moved":
            due_of[before[0]] = due
        elif outcome == "too-late":
            if before is not None:
                must.add(before[0])
        else:
            assert outcome == "unknown"
            assert before is None
    must.update(body for body, _ in alive.values())
    assert not must_not & delivered.keys(), "a replaced or cancelled message was delivered"
    assert must <= delivered.keys(), f"lost: {must - delivered.keys()}"
    for body, dues in delivered.items():
        assert set(dues) == {due_of[body]}, "delivered at another time than the last one"
    for one in getattr(run, "instances", [run]):
        assert one.store.pending_count == 0


def test_kills(tmp_path):
    crashes = Counter()
    for seed in range(6):
        run = Run(tmp_path / f"{seed}", seed, power=False)
        run.episode(120)
        check(run)
        crashes += run.crashes
        run.store.close()
    assert set(crashes) == set(POINTS) - {"delay.sync"}


def test_power_cuts(tmp_path):
    run = Run(tmp_path / "d", 1, power=True)
    run.episode(40)
    check(run)
    assert run.crashes
    run.store.close()


def test_the_check_finds_a_loss(tmp_path):
    run = Run(tmp_path / "d", 1, power=False)
    run.episode(40)
    run.sent = [sent for sent in run.sent if sent[2].kind != Kind.MESSAGE]
    with pytest.raises(AssertionError):
        check(run)
    run.store.close()
