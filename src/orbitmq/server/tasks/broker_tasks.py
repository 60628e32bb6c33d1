"""The periodic tasks of a broker; those of the store are `MessageStore.periodic_tasks`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from orbitmq.broker.broker import Broker
from orbitmq.broker.delay.level_delivery import FIRST_SCAN_MS, SCAN_INTERVAL_MS
from orbitmq.broker.metadata.registration import period_ms
from orbitmq.broker.offset.upkeep import (
    EXPIRED_OFFSETS_FIRST_MS,
    EXPIRED_OFFSETS_INTERVAL_MS,
    SLOW_READERS_INTERVAL_MS,
)
from orbitmq.server.tasks.other_brokers import OtherBrokers
from orbitmq.server.tasks.registrar import Registrar
from orbitmq.server.tasks.static_topics import StretchExpiry
from orbitmq.server.tasks.table_writer import TableWriter
from orbitmq.server.turn.turn import Turns
from orbitmq.store import PeriodicTask

FILTER_INTERVAL_MS = 10_000
BROADCAST_INTERVAL_MS = 5_000
TRANSACTION_INTERVAL_MS = 1_000
TIMER_METRICS_INTERVAL_MS = 10_000
POP_INTERVAL_MS = 100
ORDER_INTERVAL_MS = 60_000
LOCK_INTERVAL_MS = 60_000
STRETCHES_INTERVAL_MS = 5 * 60_000
CLIENT_INTERVAL_MS = 10_000
CHECK_PAUSE_SECONDS = 0.005
"""A breath between two slices of a round of check-backs: who sends meanwhile does not wait for all of it."""


@dataclass(eq=False, repr=False)
class BrokerTasks:
    """The periodic tasks of one broker.

    `after_step(now)` is called behind each step that may have stored something or woken somebody, `start`
    starts what has to be waited for.
    """

    _broker: Broker
    _table_writer: TableWriter
    _registrar: Registrar
    _turns: Turns
    _other_brokers: OtherBrokers
    _: KW_ONLY
    now: Callable[[], int]
    after_step: Callable[[int], None]
    start: Callable[[Coroutine[Any, Any, Any]], object]

    def __post_init__(self) -> None:
        broker = self._broker
        self._stretches = StretchExpiry(
            broker.identity.name, broker.topics.static, broker.store, self._other_brokers, self.now
        )
        self._stopped = False

    def stop(self) -> None:
        """No further step follows one that has more to do."""
        self._stopped = True

    def all(self) -> Iterable[PeriodicTask]:
        broker, settings = self._broker, self._broker.settings
        if not broker.role.is_slave:
            yield from self._of_masters()
        yield PeriodicTask("expire order locks", ORDER_INTERVAL_MS, broker.expire_order_locks)
        yield PeriodicTask(
            "expire lite topics", settings.lite_ttl_check_interval, self._in_steps(broker.lite_expiry.tick)
        )
        yield PeriodicTask("look after filters", FILTER_INTERVAL_MS, self._expire_filters)
        yield PeriodicTask("sample statistics", 1_000, self._in_steps(broker.stats.tick))
        yield PeriodicTask("expire clients", CLIENT_INTERVAL_MS, self._expire_clients)
        yield PeriodicTask("expire locks", LOCK_INTERVAL_MS, broker.locks.expire)
        yield PeriodicTask("keep what waits", 1_000, self._keep_what_waits)
        yield PeriodicTask("save what is due", 1_000, lambda now: self._table_writer.notice())
        for table, interval_ms in (
            (broker.offsets.NAME, settings.flush_consumer_offset_interval),
            (broker.order.NAME, settings.flush_consumer_offset_interval),
            (broker.delay.NAME, settings.flush_delay_offset_interval),
            (broker.timer.metrics.NAME, TIMER_METRICS_INTERVAL_MS),
            (broker.transactions.NAME, settings.transaction_metric_flush_interval),
        ):
            yield PeriodicTask(f"save {table}", interval_ms, self._saving(table))
        yield PeriodicTask("register", period_ms(settings.register_name_server_period), self._register)

    def _of_masters(self) -> Iterable[PeriodicTask]:
        """Tasks that append to the log or decide about consumption; slaves have none of them."""
        broker, settings = self._broker, self._broker.settings
        yield PeriodicTask(
            "deliver delayed messages",
            SCAN_INTERVAL_MS,
            self._in_steps(broker.delay.deliver_due),
            first_ms=FIRST_SCAN_MS,
        )
        yield PeriodicTask(
            "ask about half messages",
            TRANSACTION_INTERVAL_MS,
            self._in_steps(broker.check_back.tick, CHECK_PAUSE_SECONDS),
        )
        yield PeriodicTask(
            "disable slow readers", SLOW_READERS_INTERVAL_MS, self._in_steps(broker.slow_readers.tick)
        )
        yield PeriodicTask(
            "remove expired offsets",
            EXPIRED_OFFSETS_INTERVAL_MS,
            self._in_steps(broker.expired_offsets.tick),
            first_ms=EXPIRED_OFFSETS_FIRST_MS,
        )
        yield PeriodicTask(
            "drop stretches of logical queues",
            STRETCHES_INTERVAL_MS,
            lambda now: self.start(self._stretches.run()),
        )
        yield PeriodicTask("pop timers", POP_INTERVAL_MS, self._run_pop_timers)
        yield PeriodicTask("scan lite events", settings.lite_event_check_interval, self._scan_lite)
        yield PeriodicTask(
            "drop lite clients", settings.lite_subscription_check_interval, broker.lite_changes.drop_silent
        )
        yield PeriodicTask("revive popped messages", settings.revive_interval, self._in_steps(broker.revive))
        yield PeriodicTask(
            "store offsets of broadcasting groups", BROADCAST_INTERVAL_MS, broker.broadcasts.scan
        )

    def _in_steps(self, step: Callable[[int], bool], pause_seconds: float = 0) -> Callable[[int], None]:
        """A task that repeats its step while this returns true; other turns come in between."""
        goes_on = False

        def run(now: int) -> None:
            if not goes_on:
                take_step(now)

        def take_step(now: int) -> None:
            nonlocal goes_on
            goes_on = False
            if self._stopped:
                return
            more = step(now)
            self.after_step(now)
            if more:
                loop = asyncio.get_running_loop()
                loop.call_later(pause_seconds, lambda: take_step(self.now()))
                goes_on = True  # only now: whatever fails before, the next round starts over

        return run

    def _saving(self, table: str) -> Callable[[int], object]:
        return lambda now: self.start(self._table_writer.save(table))

    def _register(self, now: int) -> None:
        self.start(self._registrar.register(force=self._broker.settings.force_register))

    def _run_pop_timers(self, now: int) -> None:
        self._broker.run_pop_timers(now)
        self.after_step(now)

    def _keep_what_waits(self, now: int) -> None:
        self._broker.store.retention.keep_from = self._broker.oldest_waiting()

    def _scan_lite(self, now: int) -> None:
        self._broker.lite_events.scan(now)
        self.after_step(now)

    def _expire_filters(self, now: int) -> None:
        self._broker.filters.tend(self._broker.clients.subscription, now)
        self.start(self._table_writer.save(self._broker.filters.NAME))

    def _expire_clients(self, now: int) -> None:
        settings = self._broker.settings
        for connection_id in self._broker.clients.expire(now, settings.channel_expired_timeout):
            self._turns.close_connection(connection_id, "no heartbeat in time")
        self._turns.listener.close_idle(settings.server_channel_max_idle_time_seconds)
        self.after_step(now)
