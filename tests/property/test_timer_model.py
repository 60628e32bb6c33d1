"""Timers against a model: whatever is sent, recalled, killed, each message comes once and none early."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.kit.timer_world import NOW, TimerWorld

LOG_UNITS = 12
WINDOW_SLOTS = 6


class Timers(RuleBasedStateMachine):
    """One broker's timers; the model is when each message is due, and what was taken back in time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="timers-"))
        self.world = TimerWorld(
            self.folder / "store",
            timer_roll_window_slot=WINDOW_SLOTS,
            mapped_file_size_timer_log=52 * LOG_UNITS + 16,
        )
        self.due: dict[str, int] = {}
        self.taken_back: set[str] = set()
        self.came: list[str] = []

    @rule(after_ms=st.one_of(st.integers(1, 4000), st.integers(1, 40_000)), count=st.integers(1, 5))
    def send(self, after_ms: int, count: int) -> None:
        for _ in range(count):
            body = f"{len(self.due)}"
            self.due[body] = self.world.now + after_ms
            self.world.send(body, UNIQ_KEY=f"ID{body}", TIMER_DELIVER_MS=self.due[body])

    @rule(pick=st.integers(0, 1000))
    def recall(self, pick: int) -> None:
        # In the last moments before its second nobody can tell who was first.
        waiting = [body for body, due in self.due.items() if (due - 1) // 1000 * 1000 > self.world.now]
        if waiting:
            body = waiting[pick % len(waiting)]
            self.world.recall(f"ID{body}", (self.due[body] - 1) // 1000 * 1000 + 1)
            self.taken_back.add(body)

    @rule(
        ms=st.one_of(st.integers(1, 1500), st.integers(1, 15_000)), step_ms=st.sampled_from([50, 333, 1000])
    )
    def wait(self, ms: int, step_ms: int) -> None:
        self.world.run(self.world.now + ms, step_ms)

    @rule(steps=st.integers(1, 3), ms=st.integers(0, 2500))
    def work_a_little(self, steps: int, ms: int) -> None:
        self.world.now += ms
        for _ in range(steps):
            step = self.world.timer.step(self.world.now)
            if step.fetch is not None:
                step.fetch()
                self.world.timer.fetched()

    @rule()
    def flush(self) -> None:
        self.world.flush()

    @rule()
    def find_oldest(self) -> None:
        self.world.timer.find_oldest()

    @rule(ms=st.integers(0, 3000))
    def stop_and_start(self, ms: int) -> None:
        self.world.stop()
        self.world.now += ms
        self.world.start()

    @rule(ms=st.integers(0, 3000))
    def kill_and_start(self, ms: int) -> None:
        self.world.kill()
        self.world.now += ms
        self.world.start()

    @rule()
    def lose_the_wheel(self) -> None:
        self.world.kill()
        (self.world.root / "timerwheel").unlink(missing_ok=True)
        self.world.start()

    @invariant()
    def each_once_and_none_early(self) -> None:
        records = self.world.records()
        bodies = [record.body.decode() for record in records]
        assert len(set(bodies)) == len(bodies), "twice"
        for record in records[len(self.came) :]:
            assert record.store_timestamp >= self.due[record.body.decode()], "early"
        assert not self.taken_back.intersection(bodies), "taken back"
        self.came = bodies

    def teardown(self) -> None:
        try:
            self.world.run(max([self.world.now, *self.due.values()]) + 2000, step_ms=500)
            bodies = [record.body.decode() for record in self.world.records()]
            assert sorted(bodies) == sorted(set(self.due) - self.taken_back), "each, but for those taken back"
            assert self.world.timer.pending_by_topic == {}
        finally:
            self.world.store.close()
            shutil.rmtree(self.folder)


TestTimers = Timers.TestCase
TestTimers.settings = settings(
    max_examples=int(os.environ.get("ORBITMQ_TIMER_EXAMPLES", "20")),
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
assert NOW % 1000 == 0
