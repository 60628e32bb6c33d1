"""One simulated run of a cluster, or of one broker: `run(seed, ...)` gives what happened, and its trace."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import pkgutil
import random
import sys
import tempfile
import threading
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from orbitmq.store import FlushFailed, StoreUnavailable
from orbitmq.store.queue import reader as queue_reader
from orbitmq.store.timer import recovery as timer_recovery
from orbitmq.store.timer import wheel as timer_wheel
from orbitmq.testing.simulation.cluster import Cluster, Fault, Outcome
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.groups import Mode
from orbitmq.testing.simulation.loop import Stuck, VirtualLoop

LONGEST_SECONDS = 6_000
WHEEL_SLOTS = 32_768
"""Seconds in a turn of the timer wheel: longer than any run, as the real one's two weeks are. Those have
38 MB, and every start behind a crash fills them again.
"""
PROCESS_ID = 4711
ENDS_TRIED = 8
FAILURES_OF_DISKS = (errno.ENOSPC, errno.EIO)
"""Errors of a disk that a broker may log with a traceback: promises hold all the same."""


class _Failures(logging.Handler):
    """Turns what is logged with a traceback into a breach."""

    def __init__(self, break_: Callable[[str, str], None]) -> None:
        super().__init__(logging.ERROR)
        self._break = break_

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            is_disk = isinstance(error, FlushFailed | StoreUnavailable)
            if is_disk or getattr(error, "errno", None) in FAILURES_OF_DISKS:
                return
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            where = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames))
            self._break("failed", f"{record.getMessage()}: {error!r} at {where}")


def run(
    seed: int,
    seconds: float = 20.0,
    *,
    faults: Mapping[str, Fault] | None = None,
    script: Fault | None = None,
    settings: Mapping[str, object] | None = None,
    **mode: bool | None,
) -> Outcome:
    """One run, of which nothing is left but its outcome; the seed gives what is not given of the `Mode`.
    Faults are drawn from all, or from some of them; a script takes their place.
    """

    def make(folder: str) -> Cluster:
        chance = random.Random(seed)
        drawn = Mode.drawn(chance, **mode)
        return Cluster(chance, drawn, Path(folder), settings or {}, faults or FAULTS, script)

    with _left_behind():
        return _play(make, seed, seconds)


@contextlib.contextmanager
def _left_behind() -> Iterator[None]:
    """Collects all that a run leaves, and says nothing of it."""
    gc.disable()
    gc.freeze()  # the collection at the end has this run's objects to look at, not the whole program's
    # Work that a killed process left half done ends where it stands; its `finally` has nothing to notify.
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    log = logging.getLogger("orbitmq")
    before = log.level, log.propagate
    log.propagate = False
    try:
        yield
    finally:
        gc.enable()
        for _ in range(3):  # what is closed leaves something behind
            gc.collect()
        gc.unfreeze()
        sys.unraisablehook = hook
        log.setLevel(before[0])
        log.propagate = before[1]


def _play(make: Callable[[str], Cluster], seed: int, seconds: float) -> Outcome:
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="orbitmq-simulation-", dir=fast if fast.is_dir() else None, ignore_cleanup_errors=True
    ) as folder:
        cluster = make(folder)
        failures = _Failures(cluster.break_)
        log = logging.getLogger("orbitmq")
        log.addHandler(failures)
        log.setLevel(logging.ERROR)
        try:
            asyncio.set_event_loop(cluster.loop)
            with _small_wheel(), _nothing_by_chance(cluster.loop):
                cluster.loop.run_until_complete(_within(LONGEST_SECONDS, cluster.play(seconds)))
        except (Stuck, TimeoutError) as error:
            cluster.break_("stuck", f"nothing goes on: {error!r}")
        except Exception as error:
            cluster.break_("failed", f"the run ended with {error!r}")
        finally:
            for failure in cluster.loop.failures:
                cluster.break_("failed", failure)
            log.removeHandler(failures)
            outcome = cluster.outcome(seed)
            log.setLevel(logging.CRITICAL + 1)
            _discard(cluster)
    return outcome


async def _within(seconds: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await work


@contextlib.contextmanager
def _small_wheel() -> Iterator[None]:
    with (
        mock.patch.multiple(timer_wheel, SLOTS=WHEEL_SLOTS, WHEEL_BYTES=WHEEL_SLOTS * timer_wheel.SLOT_BYTES),
        mock.patch.object(timer_recovery, "LOOK_BACK_MS", WHEEL_SLOTS * 500 - 60_000),
    ):
        yield


@contextlib.contextmanager
def _nothing_by_chance(loop: VirtualLoop) -> Iterator[None]:
    """Has the programs take time, process ids and random numbers from the run: its seed repeats it.

    Other threads of this process keep the real ones: an event loop there would never wake once its
    timers were set by virtual time.
    """
    chance = random.Random(loop.chance.getrandbits(64))
    thread = threading.get_ident()
    simulated: dict[str, Callable[..., Any]] = {
        "time.monotonic": lambda: loop.now_seconds,
        f"{queue_reader.__name__}.monotonic": lambda: loop.now_seconds,
        "os.getpid": lambda: PROCESS_ID,
        "secrets.randbits": chance.getrandbits,
        "secrets.token_bytes": chance.randbytes,
        "secrets.token_hex": lambda size=32: chance.randbytes(size).hex(),
        "uuid.uuid4": lambda: uuid.UUID(int=chance.getrandbits(128), version=4),
        "random.random": chance.random,
        "random.uniform": chance.uniform,
        "random.choice": chance.choice,
        "random.getrandbits": chance.getrandbits,
        "random.shuffle": chance.shuffle,
    }

    def in_this_thread(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: (ours if threading.get_ident() == thread else real)(*given, **named)

    with contextlib.ExitStack() as stack:
        for name, ours in simulated.items():
            stack.enter_context(mock.patch(name, in_this_thread(pkgutil.resolve_name(name), ours)))
        yield


def _discard(cluster: Cluster) -> None:
    """Lets go of everything without running any of it."""
    loop: Any = cluster.loop
    cluster.let_go()
    loop.set_exception_handler(lambda loop, context: None)
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    for node in cluster.nodes():
        node.is_dead = True
    loop._ready.clear()
    loop._scheduled.clear()
    asyncio.set_event_loop(None)
    loop.close()
    for task in tasks:
        _end(task)


def _end(task: asyncio.Task[Any]) -> None:
    """Ends a task's coroutine where it stands. On a closed loop its `finally` fails sooner or later."""
    coroutine: Any = task.get_coro()
    for _ in range(ENDS_TRIED):
        try:
            coroutine.close()
            return
        except BaseException:  # of a process that is dead
            continue
