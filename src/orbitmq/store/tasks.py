"""The periodic tasks of a store. The process around it runs them; a closed store does nothing in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.flushing import Flushing
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask, TaskThread
from orbitmq.store.structures import Structures
from orbitmq.store.timer.current import CurrentTimers

INDEX_INTERVAL_MS = 100
RESERVE_INTERVAL_MS = 100


def periodic_tasks(
    options: StoreOptions,
    structures: Structures,
    flushing: Flushing,
    timers: CurrentTimers,
    acceptance: Acceptance,
) -> list[PeriodicTask]:
    """The tasks, with the threads that they belong to."""
    reserving, index, arrivals = structures.log.reserving, structures.index, structures.arrivals

    def task(
        name: str,
        interval_ms: int,
        run: Callable[[int], object],
        thread: TaskThread = "periodic",
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> PeriodicTask:
        run = partial(_run_while_open, acceptance, run)
        return PeriodicTask(name, interval_ms, run, in_thread=True, thread=thread, is_wanted=is_wanted)

    tasks = [
        task("flush", options.flush_interval_commit_log, flushing.run, "flush"),
        task(
            "reserve",
            RESERVE_INTERVAL_MS,
            lambda _: reserving.run(),
            "reserve",
            lambda: reserving.is_wanted or reserving.is_without_room,
        ),
        task("write queues", options.flush_interval_consume_queue, structures.checkpointing.run),
        task(
            "index",
            INDEX_INTERVAL_MS,
            lambda now_ms: index.build(arrivals.end_of_log, now_ms),
            is_wanted=lambda: index.behind(arrivals.end_of_log) > 0,
        ),
        task("retention", options.clean_resource_interval, structures.retention.run),
    ]
    if timers.files is not None:
        tasks.insert(0, task("flush timers", options.timer_flush_interval_ms, lambda _: timers.flush()))
    return tasks


def _run_while_open(acceptance: Acceptance, run: Callable[[int], object], now_ms: int) -> None:
    if not acceptance.is_closed:
        run(now_ms)
