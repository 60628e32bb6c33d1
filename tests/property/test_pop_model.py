"""Pops against a model: whatever groups do and whenever the broker ends, nothing is lost, nothing that was
acknowledged comes again, nothing is given twice at a time, and nothing overtakes in an ordered queue.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from orbitmq.protocol.errors import Refused
from tests.kit.pop import Got, PopWorld

QUEUES = 2
INVISIBLE = [1_500, 4_000, 20_000, 90_000]
SETTLE_MS = 6_000
"""Time after which a message that is due is there again: timers come to the second, revival looks every
second."""


@dataclass
class Group:
    """Messages that a group should see."""

    open: dict[bytes, int] = field(default_factory=dict)
    """Popped and not acknowledged: body -> when it may come again."""
    acked: set[bytes] = field(default_factory=set)
    maybe: set[bytes] = field(default_factory=set)
    """Acknowledged so late, or so shortly before a kill, that it may have been given again."""
    loose: set[bytes] = field(default_factory=set)
    """Given before a kill: its check point and the offset that went back both bring it, in any order."""
    seen: set[bytes] = field(default_factory=set)
    held: list[Got] = field(default_factory=list)


class PopModel(RuleBasedStateMachine):
    """Two groups that pop, on a broker that is stopped and killed."""

    @initialize(merge=st.booleans(), sync=st.booleans(), v2=st.booleans())
    def start(self, merge: bool, sync: bool, v2: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-pops-"))
        self.merges = merge
        self.world = PopWorld(
            self.root,
            {
                "enablePopBufferMerge": merge,
                "popCkStayBufferTime": 3_000,
                "popCkStayBufferTimeOut": 1_000,
                "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH",
                "enableRetryTopicV2": v2,
                "mappedFileSizeTimerLog": 52 * 1000,
                "reviveQueueNum": 2,
            },
            QUEUES,
        )
        self.sent: list[bytes] = []
        self.groups = {"A": Group(), "B": Group()}
        self.world.save()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.everything_comes()
            finally:
                self.world.close()
                shutil.rmtree(self.root)

    @rule(count=st.integers(1, 6), queue_id=st.integers(0, QUEUES - 1))
    def send(self, count: int, queue_id: int) -> None:
        self.sent += self.world.send(count, queue_id)

    @rule(name=st.sampled_from("AB"), most=st.integers(1, 8), invisible=st.sampled_from(INVISIBLE))
    def pop(self, name: str, most: int, invisible: int) -> None:
        self.take(name, self.world.pop(consumer_group=name, max_msg_nums=most, invisible_time=invisible))

    def take(self, name: str, popped: list[Got]) -> None:
        group = self.groups[name]
        for got in popped:
            body = got.body
            assert body not in group.acked, f"{body!r} was acknowledged and came again"
            group.maybe.discard(body)
            due = group.open.get(body)
            if body not in group.loose:
                assert due is None or due <= self.world.now, f"{body!r} came before its time, {due}"
            group.open[body] = got.handle.visible_ms
            group.seen.add(body)
            group.held = [held for held in group.held if held.body != body] + [got]

    @precondition(lambda self: any(group.held for group in self.groups.values()))
    @rule(name=st.sampled_from("AB"), data=st.data())
    def acknowledge(self, name: str, data: st.DataObject) -> None:
        group = self.groups[name]
        if not group.held:
            return
        got = group.held.pop(data.draw(st.integers(0, len(group.held) - 1)))
        in_time = self.world.now < group.open[got.body]
        self.world.ack(got, name)
        del group.open[got.body]
        # Too late is not refused: the message may be on its way again.
        (group.acked if in_time and got.body not in group.loose else group.maybe).add(got.body)

    @precondition(lambda self: any(group.held for group in self.groups.values()))
    @rule(name=st.sampled_from("AB"), data=st.data(), ms=st.sampled_from(INVISIBLE))
    def hide(self, name: str, data: st.DataObject, ms: int) -> None:
        group = self.groups[name]
        in_time = [got for got in group.held if self.world.now < group.open[got.body]]
        if not in_time:
            return
        got = in_time[data.draw(st.integers(0, len(in_time) - 1))]
        hidden = self.world.hide(got, ms, name)
        group.held[group.held.index(got)] = hidden
        group.open[got.body] = hidden.handle.visible_ms

    @rule(ms=st.sampled_from([100, 1_000, 3_000, 15_000]))
    def wait(self, ms: int) -> None:
        self.world.wait(ms)

    @rule()
    def save(self) -> None:
        self.world.save()

    @rule()
    def stop(self) -> None:
        self.world.restart()

    @rule()
    def kill(self) -> None:
        """Offsets are those last saved: what was given since may be given again, at once."""
        self.world.restart(kill=True)
        for group in self.groups.values():
            group.maybe |= group.acked
            group.acked = set()
            group.loose |= group.seen

    def everything_comes(self) -> None:
        """In the end each group has had every message, and nobody waits for one for ever."""
        for name, group in self.groups.items():
            for _ in range(60):
                missing = set(self.sent) - group.acked - group.maybe
                popped = self.world.pop(consumer_group=name, invisible_time=3_600_000)
                self.take(name, popped)
                for got in popped:
                    self.world.ack(got, name)
                    group.open.pop(got.body, None)
                    (group.maybe if got.body in group.loose else group.acked).add(got.body)
                    group.held = [held for held in group.held if held.body != got.body]
                if not missing:
                    break
                if not popped:
                    self.world.wait(SETTLE_MS)
            assert set(self.sent) == group.acked | group.maybe, f"group {name} never got all"


class OrderedPopModel(RuleBasedStateMachine):
    """One group that pops in order."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-pops-"))
        self.world = PopWorld(self.root, {}, 1)
        self.sent: list[bytes] = []
        self.done = 0
        """Number of messages from the front that were acknowledged without a gap."""
        self.batch: list[Got] = []
        self.blocked_until = 0
        self.world.save()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
            shutil.rmtree(self.root)

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        self.sent += self.world.send(count)

    @rule(most=st.integers(1, 4), invisible=st.sampled_from([1_000, 10_000]))
    def pop(self, most: int, invisible: int) -> None:
        popped = self.world.pop(order=True, max_msg_nums=most, invisible_time=invisible)
        if self.batch and self.world.now < self.blocked_until:
            assert popped == [], "overtaken"
            return
        bodies = [got.body for got in popped]
        assert bodies == self.sent[self.done : self.done + most]
        self.batch = popped
        self.blocked_until = self.world.now + invisible

    @precondition(lambda self: self.batch)
    @rule(gap=st.booleans())
    def acknowledge(self, gap: bool) -> None:
        """The first message, or the last: then the offset stays before those in between."""
        if gap and len(self.batch) > 1:
            self.world.ack(self.batch[-1])
            return
        got = self.batch.pop(0)
        self.world.ack(got)
        self.done = self.world.broker.offsets.get("G", "TopicTest", 0)
        assert self.done >= int(got.record.queue_offset) + 1
        self.batch = [one for one in self.batch if one.record.queue_offset >= self.done]

    @precondition(lambda self: self.batch)
    @rule(ms=st.sampled_from([1_000, 30_000]))
    def hide_all(self, ms: int) -> None:
        for got in self.batch:
            try:
                self.world.hide(got, ms)
            except Refused as refused:
                raise AssertionError(refused) from refused
        self.blocked_until = self.world.now + ms

    @rule(ms=st.sampled_from([100, 1_100, 11_000]))
    def wait(self, ms: int) -> None:
        self.world.wait(ms)

    @rule()
    def stop(self) -> None:
        self.world.restart()


TestPops = PopModel.TestCase
TestPops.settings = settings(max_examples=8, stateful_step_count=25, deadline=None)
TestOrderedPops = OrderedPopModel.TestCase
TestOrderedPops.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
