"""The periodic tasks of a store. The process around it runs them; a closed store does nothing in them."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.flushing import Flushing
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask
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
    commit_log, index, arrivals = structures.log, structures.index, structures.arrivals

    def while_open(run: Callable[[int], object]) -> Callable[[int], None]:
        def task(now_ms: int) -> None:
            if not acceptance.is_closed:
                run(now_ms)

        return task

    tasks = [
        PeriodicTask(
            "flush",
            options.flush_interval_commit_log,
            while_open(flushing.run),
            in_thread=True,
            thread="flush",
        ),
        PeriodicTask(
            "reserve",
            RESERVE_INTERVAL_MS,
            while_open(lambda now_ms: commit_log.reserve_ahead()),
            in_thread=True,
            thread="reserve",
            is_wanted=lambda: commit_log.wants_room or commit_log.is_without_room,
        ),
        PeriodicTask(
            "write queues",
            options.flush_interval_consume_queue,
            while_open(structures.checkpointing.run),
            in_thread=True,
        ),
        PeriodicTask(
            "index",
            INDEX_INTERVAL_MS,
            while_open(lambda now_ms: index.build(arrivals.end_of_log, now_ms)),
            in_thread=True,
            is_wanted=lambda: index.behind(arrivals.end_of_log) > 0,
        ),
        PeriodicTask(
            "retention", options.clean_resource_interval, while_open(structures.retention.run), in_thread=True
        ),
    ]
    if timers.files is not None:
        flush_timers = PeriodicTask(
            "flush timers", options.timer_flush_interval_ms, lambda now_ms: timers.flush(), in_thread=True
        )
        tasks.insert(0, flush_timers)
    return tasks
