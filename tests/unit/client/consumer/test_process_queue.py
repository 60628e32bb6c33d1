from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer.offsets import QueueProgress
from orbitmq.client.consumer.process_queue import ProcessQueue
from tests.kit.client_messages import QUEUE, received


def held(*offsets: int) -> tuple[ProcessQueue, dict[int, object]]:
    queue = ProcessQueue(QUEUE, 0, QueueProgress(0))
    messages = {offset: received(offset) for offset in offsets}
    queue.put(messages.values())
    return queue, messages


def test_the_oldest_unfinished_message_is_what_may_be_committed() -> None:
    queue, messages = held(5, 6, 7)
    assert queue.finish(messages[6]) == 5
    assert queue.finish(messages[5]) == 7
    assert queue.finish(messages[7]) == 8
    assert len(queue) == 0


def test_a_message_is_finished_once() -> None:
    queue, messages = held(5)
    assert queue.finish(messages[5]) == 6
    assert queue.finish(messages[5]) is None


def test_the_same_message_is_held_once() -> None:
    queue, messages = held(1, 2)
    again, new = received(2), received(3)
    assert queue.put([again, new]) == [new]
    assert not queue.holds(again)
    assert queue.holds(messages[2])


def test_size_and_span() -> None:
    queue, messages = held(10, 11, 20)
    assert (queue.size_bytes, queue.span, queue.min_offset) == (12, 10, 10)
    queue.finish(messages[10])
    assert (queue.size_bytes, queue.span) == (8, 9)
    queue.finish(messages[11])
    queue.finish(messages[20])
    assert (queue.size_bytes, queue.span, queue.min_offset) == (0, 0, -1)


def test_oldest_and_clear() -> None:
    queue, messages = held(3, 1, 2)
    assert [message.queue_offset for message in queue.oldest(2)] == [1, 2]
    assert queue.oldest(1) == [messages[1]]
    queue.clear()
    assert queue.oldest(1) == []
    assert queue.finish(messages[1]) is None


def test_info() -> None:
    queue, _ = held(3, 4)
    info = queue.info(3)
    assert (info.cached_msg_min_offset, info.cached_msg_max_offset, info.cached_msg_count) == (3, 4, 2)
    assert (info.commit_offset, info.droped) == (3, False)


@given(st.permutations(range(12)))
def test_in_any_order_nothing_unfinished_is_ever_passed(order: list[int]) -> None:
    queue, messages = held(*range(12))
    left = set(order)
    for offset in order:
        left.discard(offset)
        assert queue.finish(messages[offset]) == (min(left) if left else 12)
