"""Order by key: a message blocks its key while it is in hand or paused, and no other key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer.key_order import Key, KeyOrder
from orbitmq.client.consumer.offsets import QueueProgress
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.consumer.pulling import Limits
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.protocol.bodies.queue import MessageQueue
from tests.kit.client_messages import received

KEYS: list[Key] = ["a", "b", "c", None]
SPAN, BATCH, MOST = 7, 3, 6


class Reader:
    """One queue as a consumer works it off, with rules checked at each step."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys
        self.now = 0.0
        self.order: KeyOrder[ReceivedMessage] = KeyOrder()
        self.held = ProcessQueue(MessageQueue("T", "b", 0), 0, QueueProgress(0))
        self.limits = Limits(MOST, 1 << 20, SPAN)
        self.pulled = 0
        self.in_hand: dict[Key, ReceivedMessage] = {}
        self.until: dict[Key, float] = {}
        self.done: list[int] = []

    def pull(self) -> None:
        if not self.limits.has_room(self.held):
            return
        batch = [received(offset) for offset in range(self.pulled, len(self.keys))[:BATCH]]
        self.pulled += len(batch)
        for message in self.held.put(batch):
            self.order.add(self.keys[message.queue_offset], message)

    def waiting(self) -> dict[Key, int]:
        """The next message of each key that holds some and is neither in hand nor paused."""
        left = [offset for offset in range(self.pulled) if offset not in self.done]
        first = {
            key: min(at for at in left if self.keys[at] == key) for key in {self.keys[at] for at in left}
        }
        return {
            key: at
            for key, at in first.items()
            if key not in self.in_hand and self.until.get(key, 0) <= self.now
        }

    def take(self) -> None:
        free = self.waiting()
        at = self.order.next_at(self.now)
        taken = self.order.take(self.now)
        assert (taken is not None) == bool(free) == (at is not None and at <= self.now)
        if taken is not None:
            key, message = taken
            assert message.queue_offset == free[key]
            self.in_hand[key] = message
            self.until.pop(key, None)

    def end(self, which: int, pause: float) -> None:
        if not self.in_hand:
            return
        key = sorted(self.in_hand, key=str)[which % len(self.in_hand)]
        message = self.in_hand.pop(key)
        if pause:
            self.until[key] = self.now + pause
            self.order.pause(key, self.until[key])
            return
        self.order.done(key)
        self.done.append(message.queue_offset)
        committed = self.held.finish(message)
        assert committed is not None
        self.held.progress.advance(committed)
        # After a crash all that was done beyond the committed offset comes again.
        assert sum(at >= self.held.progress.offset for at in self.done) <= SPAN + BATCH


STEPS = st.one_of(
    st.just(("pull", 0, 0.0)),
    st.just(("take", 0, 0.0)),
    st.tuples(st.just("end"), st.integers(0, 3), st.sampled_from([0.0, 0.0, 1.0, 10.0])),
    st.tuples(st.just("sleep"), st.just(0), st.sampled_from([0.5, 3.0])),
)


@given(keys=st.lists(st.sampled_from(KEYS), max_size=40), steps=st.lists(STEPS, max_size=120))
def test_each_key_is_in_order_and_none_waits_for_another(
    keys: list[Key], steps: list[tuple[str, int, float]]
) -> None:
    reader = Reader(keys)
    for step, which, value in steps:
        match step:
            case "pull":
                reader.pull()
            case "take":
                reader.take()
            case "end":
                reader.end(which, value)
            case "sleep":
                reader.now += value
    while len(reader.done) < len(keys):  # nothing is stuck: once all succeed, all is done
        reader.now += 20
        reader.pull()
        reader.take()
        reader.end(0, 0.0)
    for key in KEYS:
        mine = [at for at in reader.done if keys[at] == key]
        assert mine == sorted(mine)
    assert reader.held.progress.offset == len(keys)
    assert reader.order.next_at(reader.now) is None


def test_others_run_ahead_up_to_the_bound_and_no_further() -> None:
    reader = Reader(["a", *["b"] * 40])
    reader.pull()
    reader.take()
    reader.end(0, 1000.0)
    for _ in range(100):
        reader.pull()
        reader.take()
        reader.end(0, 0.0)
    assert SPAN < len(reader.done) <= SPAN + BATCH
