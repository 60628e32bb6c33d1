"""Held calls: what ends them, and what does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from orbitmq.handling.call import Answer, DataAt, Durable, OffLoop, Outcome, Pause, Saved, Signal, Wait, Warm
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import GetConsumerRunningInfo
from orbitmq.server.turn.pending_replies import (
    MAX_OFF_LOOP_PER_CONNECTION,
    MAX_WAITS_PER_CONNECTION,
    WAKES_PER_ROUND,
    PendingReplies,
)

FAR = 1_000_000


@dataclass
class Held:
    """A call that a test holds, and how it ended."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def timed_out(self) -> bool | None:
        assert len(self.outcomes) <= 1, "ended twice"
        return self.outcomes[0].timed_out if self.outcomes else None


class Bench:
    def __init__(self, max_polls: int = 1_000_000) -> None:
        self.asked: list[tuple[Answer, Callable[[Command | None], None]]] = []
        self.warming: list[Callable[[], None]] = []
        self.waits = PendingReplies(
            lambda: 0,
            ask=lambda answer, timeout_ms, then: self.asked.append((answer, then)),
            warm=lambda condition, then: self.warming.append(then),
            max_polls=lambda: max_polls,
        )

    def hold(self, *on: object, deadline: int = FAR, any_of: bool = False, connection_id: int = 1) -> Held:
        held = Held()
        wait = Wait(on, deadline, lambda outcome, now: None, any_of)  # type: ignore[arg-type]
        self.waits.hold(connection_id, wait, held.outcomes.append)
        return held


async def test_a_pull_wakes_for_its_queue_offset_and_tag_only() -> None:
    bench = Bench()
    held = bench.hold(DataAt("T", 1, 5, frozenset({7})))
    bench.waits.arrived([("T", 0, 9, 7), ("U", 1, 9, 7), ("T", 1, 5, 7), ("T", 1, 6, 8)])
    assert held.timed_out is None
    bench.waits.arrived([("T", 1, 6, 7)])
    assert held.timed_out is False
    bench.waits.arrived([("T", 1, 7, 7)])
    assert bench.waits.count == 0


async def test_a_pull_with_a_filter_looks_at_each_message_that_comes() -> None:
    bench = Bench()
    asked: list[int] = []

    def accepts(queue_offset: int) -> bool:
        asked.append(queue_offset)
        return queue_offset == 7

    held = bench.hold(DataAt("T", 1, 5, None, accepts))
    bench.waits.arrived([("T", 1, 5, 0), ("T", 1, 6, 0), ("T", 1, 7, 0)])
    assert held.timed_out is None
    bench.waits.arrived([("T", 1, 8, 0), ("T", 1, 9, 0)])
    assert held.timed_out is False
    assert asked == [5, 6, 7]


async def test_many_pulls_of_one_queue_wake_together() -> None:
    bench = Bench()
    all_held = [bench.hold(DataAt("T", 0, 0)) for _ in range(100)]
    bench.waits.arrived([("T", 0, 1, 0)])
    assert all(held.timed_out is False for held in all_held)


async def test_a_crowd_wakes_a_part_at_a_time() -> None:
    bench = Bench()
    all_held = [bench.hold(DataAt("T", 0, 0), connection_id=number) for number in range(4000)]

    def woken() -> int:
        return sum(held.timed_out is False for held in all_held)

    bench.waits.arrived([("T", 0, 1, 0)])
    assert woken() == WAKES_PER_ROUND
    bench.waits.arrived([("T", 0, 2, 0)])  # those who are still to wake are not woken twice
    await asyncio.sleep(0)
    assert woken() == 2 * WAKES_PER_ROUND
    bench.waits.connection_closed(3999)
    while bench.waits.count:
        before = woken()
        await asyncio.sleep(0)
        assert woken() <= before + WAKES_PER_ROUND
    assert woken() == 3999
    assert all_held[3999].outcomes == []


async def test_no_more_long_polls_are_held_than_allowed() -> None:
    bench = Bench(max_polls=2)
    assert [bench.hold(DataAt("T", 0, 0), connection_id=n).timed_out for n in range(3)] == [None, None, True]
    assert bench.hold(Signal()).timed_out is True
    assert bench.hold(Durable(1)).timed_out is None  # nobody's send is refused for pulls of others
    bench.waits.connection_closed(0)
    assert bench.hold(DataAt("T", 0, 0)).timed_out is None
    bench.waits.arrived([("T", 0, 1, 0)])
    assert (bench.waits.polls, bench.waits.count) == (0, 1)


async def test_long_waits_end_together_and_not_before_their_time() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = PendingReplies(lambda: int((loop.time() - began) * 1000))
    ended: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    for connection_id, deadline in ((1, 1001), (2, 1002), (3, 1100)):
        wait = Wait((DataAt("T", 0, 0),), deadline, lambda outcome, now: None)
        waits.hold(
            connection_id,
            wait,
            lambda outcome, of=connection_id: ended.put_nowait((of, loop.time() - began)),  # type: ignore[misc]
        )
    waits.connection_closed(2)
    assert waits.count == 2
    (first, first_at), (last, last_at) = [await ended.get() for _ in range(2)]
    assert (first, last) == (1, 3)
    assert first_at >= 1.001
    assert last_at >= 1.1
    assert waits.count == 0


async def test_disk_waits_end_in_the_order_of_the_log() -> None:
    bench = Bench()
    first, second = bench.hold(Durable(100)), bench.hold(Durable(200))
    bench.waits.durable(99)
    assert bench.waits.waits_for_disk
    bench.waits.durable(100)
    assert (first.timed_out, second.timed_out) == (False, None)
    bench.waits.durable(1000)
    assert second.timed_out is False
    assert not bench.waits.waits_for_disk


async def test_all_conditions_have_to_be_met() -> None:
    bench = Bench()
    held = bench.hold(Durable(1), Saved("topics"))
    bench.waits.durable(5)
    assert held.timed_out is None
    bench.waits.saved(["groups"])
    assert held.timed_out is None
    bench.waits.saved(["topics"])
    assert held.timed_out is False


async def test_with_any_of_the_first_condition_counts() -> None:
    bench = Bench()
    held = bench.hold(DataAt("T", 0, 0), DataAt("T", 1, 0), any_of=True)
    bench.waits.arrived([("T", 1, 1, 0)])
    assert held.timed_out is False
    bench.waits.arrived([("T", 0, 1, 0)])
    assert len(held.outcomes) == 1


async def test_time_ends_a_wait() -> None:
    bench = Bench()
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    bench.waits.hold(1, Wait((DataAt("T", 0, 0),), 20, lambda outcome, now: None), ended.set_result)
    assert (await ended).timed_out
    assert bench.waits.count == 0


async def test_a_deadline_in_the_past_is_answered_at_once() -> None:
    assert Bench().hold(DataAt("T", 0, 0), deadline=0).timed_out is True


async def test_answers_of_peers_reach_the_outcome_and_silence_is_absence() -> None:
    bench = Bench()
    one, other = (Answer(n, GetConsumerRunningInfo(consumer_group="G", client_id="c")) for n in (1, 2))
    held = bench.hold(one, other)
    reply = Command(0)
    bench.asked[0][1](reply)
    assert held.timed_out is None
    bench.asked[1][1](None)
    assert held.outcomes[0].answers == {one: reply}


async def test_a_cold_read_goes_on_when_it_is_warm() -> None:
    bench = Bench()
    held = bench.hold(Warm(0, 100))
    assert held.timed_out is None
    bench.warming[0]()
    assert held.timed_out is False


async def test_calls_of_a_connection_that_ended_are_forgotten() -> None:
    bench = Bench()
    gone = bench.hold(DataAt("T", 0, 0), connection_id=1)
    stays = bench.hold(DataAt("T", 0, 0), connection_id=2)
    bench.waits.connection_closed(1)
    bench.waits.arrived([("T", 0, 1, 0)])
    assert (gone.timed_out, stays.timed_out) == (None, False)


async def test_one_peer_cannot_hold_more_than_its_share() -> None:
    bench = Bench()
    for _ in range(MAX_WAITS_PER_CONNECTION):
        bench.hold(DataAt("T", 0, 0), connection_id=1)
    assert bench.hold(DataAt("T", 0, 0), connection_id=1).timed_out is True
    assert bench.hold(DataAt("T", 0, 0), connection_id=2).timed_out is None


async def test_work_that_has_begun_takes_its_turns_whatever_else_its_peer_holds() -> None:
    bench = Bench()
    for _ in range(MAX_WAITS_PER_CONNECTION):
        bench.hold(DataAt("T", 0, 0), connection_id=1)
    turns = 0

    def again(outcome: Outcome) -> None:
        nonlocal turns
        assert not outcome.timed_out
        turns += 1
        if turns < 2_000:  # more of them within each other would be too deep
            bench.waits.hold(1, Wait((Pause(),), FAR, lambda outcome, now: None), again)
        else:
            done.set()

    done = asyncio.Event()
    bench.waits.hold(1, Wait((Pause(),), FAR, lambda outcome, now: None), again)
    assert turns == 0
    await done.wait()


async def test_a_server_that_stops_ends_every_wait() -> None:
    bench = Bench()
    held = [bench.hold(DataAt("T", 0, 0)), bench.hold(Durable(1)), bench.hold(Saved("topics"))]
    bench.waits.end_all()
    assert all(one.timed_out is True for one in held)
    assert bench.waits.count == 0


async def test_a_signal_wakes_the_call_that_waits_for_this_very_one() -> None:
    bench = Bench()
    mine, other, late = Signal(), Signal(), Signal()
    held, still = bench.hold(mine), bench.hold(other)
    bench.waits.signalled([late, mine, mine])
    assert held.timed_out is False
    assert still.timed_out is None
    bench.waits.connection_closed(1)
    bench.waits.signalled([other])
    assert still.timed_out is None
    assert bench.waits.count == 0


async def test_calls_that_are_held_together_count_one_by_one() -> None:
    bench = Bench()
    outcomes: list[Outcome] = []
    wait = Wait((Durable(100),), FAR, lambda outcome, now: None)
    bench.waits.hold(1, wait, outcomes.append, MAX_WAITS_PER_CONNECTION)
    assert bench.waits.count == MAX_WAITS_PER_CONNECTION
    assert bench.waits.is_full(1)
    assert bench.hold(Durable(200)).timed_out is True
    assert not bench.waits.is_full(2)
    bench.waits.durable(100)
    assert [outcome.timed_out for outcome in outcomes] == [False]
    assert bench.waits.count == 0
    assert not bench.waits.is_full(1)


def working(steps: list[int], started: threading.Event, go_on: threading.Event) -> Generator[None, None, str]:
    """Work of a few slices that a test lets go on."""
    for number in range(3):
        steps.append(threading.get_ident())
        started.set()
        if not number:
            go_on.wait()
        yield
    return "found"


async def test_work_is_done_beside_the_loop_and_its_result_told_on_it() -> None:
    bench, steps = Bench(), list[int]()
    go_on = threading.Event()
    go_on.set()
    held: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    wait = Wait((OffLoop(working(steps, threading.Event(), go_on)),), FAR, lambda outcome, now: None)
    bench.waits.hold(1, wait, held.set_result)
    outcome = await held
    assert (outcome.value, outcome.error, outcome.timed_out) == ("found", None, False)
    assert len(steps) == 3
    assert threading.get_ident() not in steps
    assert bench.waits.count == 0


async def test_what_work_raises_reaches_the_outcome() -> None:
    def work() -> Generator[None, None, None]:
        yield
        raise Refused(17, "no such topic")

    held: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    Bench().waits.hold(1, Wait((OffLoop(work()),), FAR, lambda outcome, now: None), held.set_result)
    assert str((await held).error) == "TOPIC_NOT_EXIST: no such topic"


async def test_work_for_a_peer_that_is_gone_ends_after_its_slice() -> None:
    bench, steps = Bench(), list[int]()
    started, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def work() -> Generator[None, None, None]:
        try:
            yield from working(steps, started, go_on)  # type: ignore[misc]
        finally:
            closed.set()

    held = bench.hold(OffLoop(work()))
    assert await asyncio.to_thread(started.wait, 60)
    bench.waits.connection_closed(1)
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 60)
    assert len(steps) == 1
    assert (held.outcomes, bench.waits.count) == ([], 0)


async def test_work_of_a_peer_waits_beyond_a_limit_and_large_bodies_are_refused() -> None:
    bench, go_on = Bench(), threading.Event()

    def hold(
        connection_id: int, holds_body: bool = False, started: threading.Event | None = None
    ) -> asyncio.Future[Outcome]:
        held: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        work = working([], started or threading.Event(), go_on)
        wait = Wait((OffLoop(work, holds_body),), FAR, lambda outcome, now: None)
        bench.waits.hold(connection_id, wait, held.set_result)
        return held

    held = [hold(1) for _ in range(MAX_OFF_LOOP_PER_CONNECTION)]
    started = threading.Event()
    queued, refused, other = hold(1, started=started), hold(1, holds_body=True), hold(2)
    error = (await refused).error
    assert isinstance(error, Refused)
    assert error.code == ResponseCode.SYSTEM_BUSY
    assert not any(one.done() for one in (*held, queued))
    assert not started.is_set()
    go_on.set()
    assert [(await one).value for one in (*held, queued, other)] == ["found"] * (len(held) + 2)
    assert (await hold(1)).value == "found"
