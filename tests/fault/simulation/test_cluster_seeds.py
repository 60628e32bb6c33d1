"""Seeds of simulated clusters that showed a defect once; each is run as it was then."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
import subprocess
import sys
import threading
from typing import Any

import pytest

from orbitmq.testing.simulation.cluster import Outcome
from orbitmq.testing.simulation.cluster_faults import FAULTS, elect
from orbitmq.testing.simulation.cluster_run import run
from orbitmq.testing.simulation.loop import VirtualLoop
from tests.kit.brokers import others_at_night

KILLS = {"kill": FAULTS["kill"]}


def rules(outcome: Outcome) -> list[str]:
    return [str(one) for one in outcome.broken]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", others_at_night([102, 103, 109, 112, 135], [135]))
def test_messages_that_waited_are_delivered_once_however_often_their_master_is_killed(seed: int) -> None:
    """Elections repeated delayed messages (102, 103, 112), and delivered recalled ones (109,
    135): a new master went on from positions copied of a master that had not met all it knew itself.
    """
    outcome = run(seed, has_controller=True, faults=KILLS)
    assert outcome.elections > 1
    assert not rules(outcome)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        (33, {"has_controller": True, "sync_flush": False}),
        (60049, {}),
        *(
            pytest.param(seed, {}, marks=pytest.mark.nightly)
            for seed in (2, 1003, 6049, 30104, 30372, 34034, 40079)
        ),
        pytest.param(222, {"sync_flush": False}, marks=pytest.mark.nightly),
    ],
)
def test_seeds_of_all_faults_break_no_promise(seed: int, mode: dict[str, Any]) -> None:
    """Nobody asked about half messages after a clock was set back (2), a master acknowledged what a member of
    its in-sync set lacked (33), and a slave deleted the queues of a topic that its new master had not heard
    of (1003). A master whose lease had been over showed what members of its set lacked (6049). Timers behind
    a clock that was set back by an hour wait for their time of day (222). A master that was elected again
    took the ends of transactions before it knew which were open, and others were lost (30104). A delayed
    message came twice: the clock of the master that had delivered it was ahead of its successor's (30372).
    An election was taken back by an older change that the consensus store carried out late (34034). A cut
    log lost entries of queues which waited for slaves, with the next power cut (40079). A new master that
    lost power early took no timer messages in that its predecessor had taken in (60049).
    """
    assert not rules(run(seed, **mode))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        (1, {"is_sync": False, "sync_flush": False}),
        pytest.param(2, {"is_sync": True, "sync_flush": True}, marks=pytest.mark.nightly),
    ],
)
def test_masters_go_on_without_controllers_and_break_no_promise(seed: int, mode: dict[str, Any]) -> None:
    outcome = run(seed, has_controller=True, goes_blind=True, **mode)
    assert outcome.blind_spells
    assert not rules(outcome)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_popped_messages_come_again_though_the_clock_of_their_consumer_is_behind() -> None:
    """Its pops came too late by the broker's clock, all of them, and took nothing."""
    faults = {name: FAULTS[name] for name in ("kill", "reset_connections")}
    assert not rules(run(105, has_controller=True, faults=faults))


@pytest.mark.timeout(1800)
def test_no_two_members_answer_as_masters_while_an_operator_moves_the_role() -> None:
    """One of them is cut off or stands still, and does not hear of the election."""
    faults = {"elect": elect, "elect_again": elect, "cut_off": FAULTS["cut_off"], "freeze": FAULTS["freeze"]}
    outcome = run(1, has_controller=True, is_sync=True, sync_flush=True, faults=faults)
    assert outcome.elections > 5
    assert not rules(outcome)


def traces(seeds: str, hash_seed: int) -> str:
    """The runs of some seeds, in a process whose sets of texts have an order of their own."""
    program = (
        "import sys; from orbitmq.testing.simulation.cluster_run import run\n"
        f"for seed in ({seeds},): print(*run(seed).trace, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.timeout(1800)
def test_a_seed_repeats_its_run_exactly() -> None:
    first = traces("100", 1)
    assert first == traces("100", 2)
    assert len(first.splitlines()) > 50


def test_a_timer_goes_off_at_its_time_and_not_before() -> None:
    """A wait for the rest of a moment that never passed went on for ever."""
    loop = VirtualLoop(random.Random(0))
    due = [loop.time() + 1, loop.time() + 1 + 4e-7]
    went_off: list[float] = []
    for at in due:
        loop.call_at(at, lambda: went_off.append(loop.time()))
    loop.call_at(due[-1] + 1, loop.stop)
    loop.run_forever()
    loop.close()
    assert all(moment >= at for at, moment in zip(due, went_off, strict=True))


def test_event_loops_of_other_threads_go_on_by_the_real_clock() -> None:
    ticks, over = threading.Semaphore(0), threading.Event()

    async def tick() -> None:
        while not over.is_set():
            ticks.release()
            await asyncio.sleep(0.001)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ticking = asyncio.run_coroutine_threadsafe(tick(), loop)
    try:
        run(100, has_controller=True)
        while ticks.acquire(blocking=False):
            pass
        assert ticks.acquire(timeout=120), "a timer that was set meanwhile goes off"
    finally:
        over.set()
        concurrent.futures.wait([ticking], 120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
