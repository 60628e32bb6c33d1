"""Requests for logical queues, over physical queues in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.static_topic.rules import RULES, PhysicalRequest, Rest
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import item_at
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.offset import (
    ConsumerOffset,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    StoretimeReply,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import MAY_BE_HELD, PullMessage, PullReply
from orbitmq.protocol.schema.declare import Reply, Request, Void

BLOCK = 10_000


class Physical:
    """Physical queues by broker and queue id: store times of messages, first offsets, offsets of a group."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, int], list[int]] = {}
        self.low: dict[tuple[str, int], int] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.rests = 0

    def answer(self, place: tuple[str, int], request: Request[Any]) -> Reply:
        times, low = self.times.get(place, []), self.low.get(place, 0)
        end = len(times)
        match request:
            case PullMessage():
                at = request.queue_offset
                count = min(request.max_msg_nums, end - at)
                if low <= at < end:
                    return PullReply(0, at + count, low, end)
                code = ResponseCode.PULL_NOT_FOUND if at == end else ResponseCode.PULL_OFFSET_MOVED
                return PullReply(0, low if at < low else end, low, end, code=code)
            case GetMaxOffset():
                return OffsetReply(end)
            case GetMinOffset():
                return OffsetReply(low)
            case GetEarliestMsgStoretime():
                return StoretimeReply(times[low] if low < end else -1)
            case SearchOffsetByTimestamp():
                later = (n for n in range(low, end) if times[n] >= request.timestamp)
                return OffsetReply(next(later, end))
            case UpdateConsumerOffset():
                self.offsets[place] = request.commit_offset
                return Void()
            case QueryConsumerOffset():
                offset = self.offsets.get(place, -1)
                if offset < 0:
                    raise Refused(ResponseCode.QUERY_NOT_FOUND, "none")
                return ConsumerOffset(offset)
        raise AssertionError(request)

    def ask(self, items: list[Item], request: Any) -> Any:
        work = RULES[type(request)](items, request)
        heard: Any = None
        while True:
            try:
                step = work.throw(heard) if isinstance(heard, Refused) else work.send(heard)
            except StopIteration as done:
                return done.value
            if isinstance(step, Rest):
                self.rests += 1
                heard = None
                continue
            assert isinstance(step, PhysicalRequest)
            asked = step.request
            assert asked.logical is False
            assert (asked.broker_name, asked.queue_id) == (step.item.bname, step.item.queue_id)
            try:
                heard = self.answer((step.item.bname, step.item.queue_id), asked)
            except Refused as refused:
                heard = refused


def pull(offset: int, most: int = 32) -> PullMessage:
    return PullMessage("G", "T", 0, offset, most, MAY_BE_HELD, 0, 1000, 0)


def moved(*counts: int, placed: bool = True) -> tuple[Physical, list[Item]]:
    """A logical queue that was moved along brokers, with so many messages on each; the last one's place is
    decided or not.
    """
    physical = Physical()
    items = []
    for number, count in enumerate(counts):
        is_placed = placed or number < len(counts) - 1
        items.append(Item(number, 0, f"broker-{number}", number * BLOCK if is_placed else -1))
        physical.times[f"broker-{number}", 0] = [1000 * number + n for n in range(count)]
    return physical, items


def test_a_reader_goes_from_stretch_to_stretch() -> None:
    physical, items = moved(3, 0, 2)
    offset, read = 0, []
    for _ in range(10):
        reply = physical.ask(items, pull(offset, 2))
        if reply.code == ResponseCode.SUCCESS:
            read += range(offset, reply.next_begin_offset)
        elif reply.code == ResponseCode.PULL_NOT_FOUND:
            break
        offset = reply.next_begin_offset
    assert read == [0, 1, 2, 2 * BLOCK, 2 * BLOCK + 1]
    assert (reply.min_offset, reply.max_offset) == (2 * BLOCK, 2 * BLOCK + 2)
    assert reply.offset_delta == 2 * BLOCK
    assert physical.rests == 0, "the broker holds a pull of the last stretch itself"


def test_only_the_last_stretch_holds_pulls() -> None:
    _, items = moved(3, 2)
    for offset, held in ((0, False), (BLOCK, True)):
        step = next(RULES[PullMessage](items, pull(offset)))
        assert isinstance(step, PhysicalRequest)
        assert bool(step.request.sys_flag & MAY_BE_HELD) is held


def test_a_pull_waits_a_moment_while_the_next_stretch_has_no_place() -> None:
    physical, items = moved(3, 4, placed=False)
    reply = physical.ask(items, pull(3))
    assert reply.code == ResponseCode.PULL_NOT_FOUND
    assert reply.next_begin_offset == 3
    assert physical.rests == 1
    assert physical.ask(items, GetMaxOffset("T", 0)).offset == 3


@pytest.mark.parametrize(
    ("offset", "code", "following"),
    [
        (0, ResponseCode.PULL_OFFSET_MOVED, 2),  # messages of the earliest stretch are gone
        (BLOCK, ResponseCode.PULL_RETRY_IMMEDIATELY, BLOCK + 1),  # of a later one
        (BLOCK + 9, ResponseCode.PULL_OFFSET_MOVED, BLOCK + 3),  # behind the end
    ],
)
def test_offsets_without_messages(offset: int, code: ResponseCode, following: int) -> None:
    physical, items = moved(4, 3)
    physical.low = {("broker-0", 0): 2, ("broker-1", 0): 1}
    reply = physical.ask(items, pull(offset))
    assert (reply.code, reply.next_begin_offset) == (code, following)


def test_what_comes_late_to_an_old_queue_ends_where_the_next_stretch_begins() -> None:
    physical, items = moved(BLOCK + 5, 1)
    reply = physical.ask(items, pull(BLOCK - 2))
    assert (reply.code, reply.next_begin_offset) == (ResponseCode.SUCCESS, BLOCK)


def test_the_offset_of_a_group_moves_over_stretches() -> None:
    physical, items = moved(5, 5, 5)
    with pytest.raises(Refused, match="Not found"):
        physical.ask(items, QueryConsumerOffset("G", "T", 0))
    for offset in (3, BLOCK, BLOCK + 4, 2 * BLOCK + 1):
        physical.ask(items, UpdateConsumerOffset("G", "T", 0, offset))
        assert physical.ask(items, QueryConsumerOffset("G", "T", 0)).offset == offset
    assert list(physical.offsets.values()) == [5, 5, 1], "it is through with the stretches before"
    physical.ask(items, UpdateConsumerOffset("G", "T", 0, 2))
    assert physical.ask(items, QueryConsumerOffset("G", "T", 0)).offset == 2, "the group went back"


def test_the_range_and_times_of_a_queue() -> None:
    physical, items = moved(0, 3, 2)
    assert physical.ask(items, GetMinOffset("T", 0)).offset == 0
    assert physical.ask(items, GetMaxOffset("T", 0)).offset == 2 * BLOCK + 2
    assert physical.ask(items, GetEarliestMsgStoretime("T", 0)).timestamp == 1000

    def search(time: int, boundary: str | None = None) -> int:
        found = physical.ask(items, SearchOffsetByTimestamp("T", 0, time, boundary))
        return int(found.offset)

    assert [search(time) for time in (0, 1001, 1500, 2001, 9000)] == [
        BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 2 * BLOCK + 2
    ]  # fmt: skip
    assert [search(time, "upper") for time in (1001, 1500, 2000, 9000)] == [
        BLOCK + 1, BLOCK + 2, 2 * BLOCK, 2 * BLOCK + 1
    ]  # fmt: skip


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 40))
def test_every_message_is_read_once_and_in_order(counts: list[int], most: int) -> None:
    physical, items = moved(*counts)
    offset, read = physical.ask(items, GetMinOffset("T", 0)).offset, []
    while (reply := physical.ask(items, pull(offset, most))).code != ResponseCode.PULL_NOT_FOUND:
        assert reply.next_begin_offset > offset
        if reply.code == ResponseCode.SUCCESS:
            read += range(offset, reply.next_begin_offset)
        offset = reply.next_begin_offset
    assert read == [number * BLOCK + n for number, count in enumerate(counts) for n in range(count)]
    assert offset == physical.ask(items, GetMaxOffset("T", 0)).offset
    for place in read:
        item = item_at(items, place)
        assert item is not None
        assert item.static_offset(item.queue_offset(place)) == place
