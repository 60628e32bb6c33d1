"""The periodic tasks of a broker in its present role; a change of role restarts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.role.state import RoleState
from orbitmq.server.role.sockets import ReplicationRunner
from orbitmq.server.tasks.broker_tasks import BrokerTasks
from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.tasks.timer_runner import TimerRunner
from orbitmq.store import MessageStore, PeriodicTask
from orbitmq.store.timer.check_point import TimerMark


class RoleTasks:
    """Runs the tasks of the rules, of timers, of replication and of the store; only a master has timers.

    `make_broker_tasks()` gives the tasks of the rules, `others` are those that every role has.
    `after_turn(now)` ends a turn.
    """

    def __init__(
        self,
        role: RoleState,
        timer: Timers,
        store: MessageStore,
        replication: ReplicationRunner,
        threads: Threads,
        make_broker_tasks: Callable[[], BrokerTasks],
        others: Sequence[PeriodicTask],
        *,
        now: Callable[[], int],
        after_turn: Callable[[int], None],
    ) -> None:
        self._role = role
        self._timer = timer
        self._store = store
        self._replication = replication
        self._threads = threads
        self._runner = PeriodicTaskRunner(now, threads.for_periodic_tasks)
        self._make_broker_tasks = make_broker_tasks
        self._others = others
        self._now = now
        self._after_turn = after_turn
        self._broker_tasks: BrokerTasks | None = None
        self._timers: TimerRunner
        self.all: Sequence[PeriodicTask] = ()
        """The tasks that were started last."""
        self.renew_timers()

    def renew_timers(self) -> None:
        """Lets the next `start` run the timers again, after a `stop`."""
        self._timers = TimerRunner(self._timer, self._now, self._after_turn, self._threads.read)

    async def reopen_timers(self, mark: TimerMark | None) -> None:
        """Opens the files of timers again; see `CurrentTimers.reopen`."""
        reopen, now = self._store.current_timers.reopen, self._now()
        await asyncio.get_running_loop().run_in_executor(self._threads.periodic, reopen, now, mark)

    def start(self) -> None:
        """Starts the tasks that the broker's role has."""
        self._broker_tasks = of_rules = self._make_broker_tasks()
        self.all = (
            *of_rules.all(),
            *([] if self._role.is_slave else self._timers.periodic_tasks()),
            *self._replication.periodic_tasks(),
            *self._store.periodic_tasks(),
            *self._others,
        )
        for task in self.all:
            self._runner.start(task)

    async def stop(self) -> None:
        """Ends all of them, and waits for calls that threads run."""
        if self._broker_tasks is not None:
            self._broker_tasks.stop()
        self._timers.stop()
        await self._runner.stop()
