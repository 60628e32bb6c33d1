"""The periodic tasks of a broker in its present role; a change of role restarts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.role.state import RoleState
from orbitmq.server.role.sockets import ReplicationRunner
from orbitmq.server.tasks.broker_tasks import BrokerTasks
from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.tasks.timer_runner import TimerRunner
from orbitmq.store import MessageStore, PeriodicTask
from orbitmq.store.timer.check_point import TimerMark


@dataclass(eq=False, repr=False)
class RoleTasks:
    """Runs the tasks of the rules, of timers, of replication and of the store; only a master has timers.

    `make_broker_tasks()` gives the tasks of the rules, `others` are those that every role has.
    `after_turn(now)` ends a turn.
    """

    _role: RoleState
    _timer: Timers
    _store: MessageStore
    _replication: ReplicationRunner
    _threads: Threads
    _make_broker_tasks: Callable[[], BrokerTasks]
    _others: Sequence[PeriodicTask]
    _: KW_ONLY
    now: Callable[[], int]
    after_turn: Callable[[int], None]

    def __post_init__(self) -> None:
        self._runner = PeriodicTaskRunner(self.now, self._threads.for_periodic_tasks)
        self._broker_tasks: BrokerTasks | None = None
        self._timers: TimerRunner
        self.all: Sequence[PeriodicTask] = ()
        """The tasks that were started last."""
        self.renew_timers()

    def renew_timers(self) -> None:
        """Lets the next `start` run the timers again, after a `stop`."""
        self._timers = TimerRunner(self._timer, self.now, self.after_turn, self._threads.read)

    async def reopen_timers(self, mark: TimerMark | None) -> None:
        """Opens the files of timers again; see `CurrentTimers.reopen`."""
        reopen, now = self._store.current_timers.reopen, self.now()
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
