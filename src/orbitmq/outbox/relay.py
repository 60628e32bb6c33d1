"""The relay: sends what transactions have committed to the outbox.

A batch is one transaction of the database: lock keys, read their rows, send them, note what became of them,
commit. A relay that dies in between has noted nothing: the database frees its locks, and another relay sends
those rows again, under the same ids. Everything else was noted before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.errors import InvalidArgument, NotRunning
from orbitmq.client.producer.producer import Producer
from orbitmq.outbox.claiming import Claimed, claim, note
from orbitmq.outbox.database import DATABASE_ERRORS, Link, kind_of, link
from orbitmq.outbox.errors import DatabaseAway, OutboxError, named, reason_of
from orbitmq.outbox.keeping import Counts, counts, delete_sent
from orbitmq.outbox.listening import can_listen, listen
from orbitmq.outbox.locking import FileLock, make_locks
from orbitmq.outbox.sending import Sending, SendingRules, Sent
from orbitmq.outbox.tables import LOCKS
from orbitmq.outbox.verdicts import Pauses
from orbitmq.outbox.writing import Outbox

log = logging.getLogger(__name__)

T = TypeVar("T")

LISTENING_POLL_MS = 1000
POLL_MS = 200
"""Default interval of looks, with and without the database's word."""
DELETED_AT_ONCE = 500
DELETE_INTERVAL_SECONDS = 10.0
DELETE_PAUSE_SECONDS = 0.05
COUNT_INTERVAL_SECONDS = 15.0
IDLE_FACTOR = 20
"""A look that finds nothing is followed by a pause of so many times its duration: it costs 5 % at most."""


@dataclass(slots=True)
class RelayMetrics:
    """Counters since the start, and the last count of what waits."""

    sent: int = 0
    parked: int = 0
    batches: int = 0
    failed_sends: int = 0
    """Batches of a topic in which a send failed that will be tried again."""
    database_errors: int = 0
    deleted: int = 0
    counts: Counts = field(default_factory=Counts)
    """Messages in the database when they were last counted (every 15 s)."""


class Relay:
    """Sends the messages of an outbox, beside the program or within it.

        async with Producer("shop") as producer, Relay(outbox, engine, producer):
            ...

    `database` is an engine of SQLAlchemy, synchronous or not; `producer` is started, and used by others as
    well. Several relays may run, in any number of processes: a key is sent by one of them at a time.
    `workers` is the number of batches that this one has under way, each with a connection.

    `batch_size` is the maximum of messages in a batch. `poll_interval_ms` is the interval at which it looks
    for messages: 1000 if PostgreSQL tells of them, else 200. `send_timeout_ms` is the time for which a send
    is tried; the transaction of the batch is open as long. If it fails for want of a broker, or of its topic,
    the topic has a pause, from 0.1 s up to `max_pause_ms`.

    A message that no broker will take is parked with the reason. `park_blocks_key` has later messages of its
    key wait until it is released or discarded. `park_after_ms` parks messages that are older, too, if a
    broker refuses them for a reason that an operator could change (an unknown topic, a missing right); None
    tries them for ever.

    Rows that were sent are deleted `retention_ms` later (a day), in small batches; 0 deletes them at once.
    `on_error` is called with each failure of a batch; it must not raise or block. Raises InvalidArgument.
    """

    def __init__(
        self,
        outbox: Outbox,
        database: Engine | AsyncEngine,
        producer: Producer,
        *,
        workers: int = 1,
        batch_size: int = 256,
        poll_interval_ms: float | None = None,
        send_timeout_ms: int = 5000,
        max_pause_ms: int = 10_000,
        park_blocks_key: bool = False,
        park_after_ms: int | None = None,
        retention_ms: int = 86_400_000,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        if not isinstance(outbox, Outbox):
            raise InvalidArgument(f"Relay: outbox has to be an Outbox, not {shown(outbox)}")
        if not isinstance(producer, Producer):
            raise InvalidArgument(f"Relay: producer has to be a Producer, not {shown(producer)}")
        self._is_sqlite = kind_of(database) == "sqlite"
        check_number("Relay", "workers", workers, 1, 64)
        check_number("Relay", "batch_size", batch_size, 1, 10_000)
        check_number("Relay", "send_timeout_ms", send_timeout_ms, 1, 600_000)
        check_number("Relay", "max_pause_ms", max_pause_ms, 100, 3_600_000)
        check_number("Relay", "retention_ms", retention_ms, 0)
        if park_after_ms is not None:
            check_number("Relay", "park_after_ms", park_after_ms, 0)
        self._listens = outbox.notify and can_listen(database)
        if poll_interval_ms is None:
            poll_interval_ms = LISTENING_POLL_MS if self._listens else POLL_MS
        check_number("Relay", "poll_interval_ms", poll_interval_ms, 1, 3_600_000)
        self.outbox = outbox
        self.metrics = RelayMetrics()
        self._database = database
        self._producer = producer
        # One connection at a time is what SQLite's lock lets through anyway.
        self._workers = 1 if self._is_sqlite else workers
        self._batch_size = batch_size
        self._poll_ms = poll_interval_ms
        self._rules = SendingRules(send_timeout_ms, park_blocks_key, park_after_ms)
        self._retention_ms = retention_ms
        self._on_error = on_error
        self._max_pause_ms = max_pause_ms
        self._pauses = Pauses(max_pause_ms)
        self._stop = asyncio.Event()
        self._wakes: list[asyncio.Event] = []
        self._working: list[asyncio.Task[None]] = []
        self._beside: list[asyncio.Task[None]] = []
        self._errors: dict[str, Exception] = {}
        self._left_topics: set[str] = set()
        """Topics that the last look left, for they had a pause."""
        self._file_lock = FileLock(None)
        self._first_lock = random.randrange(LOCKS)

    async def start(self) -> Self:
        """Check that database and table are there, and begin to send. `async with` does this.

        Raises DatabaseAway, TableMissing, NotRunning.
        """
        if self._working or self._stop.is_set():
            raise NotRunning("a relay is started once: make another one")
        _ = self._producer.client_id  # raises NotRunning
        first = link(self._database)
        try:
            with named(self.outbox.name):
                await first.once(self._prepare)
        except OutboxError:
            raise
        except DATABASE_ERRORS as error:
            raise DatabaseAway(f"the database cannot be used: {reason_of(error)}") from error
        finally:
            await first.close()
        for number in range(self._workers):
            self._wakes.append(asyncio.Event())
            work = self._work(self._wakes[-1])
            self._working.append(asyncio.create_task(work, name=f"outbox relay {number}"))
        self._beside.append(asyncio.create_task(self._count(), name="count the outbox"))
        if self._retention_ms:
            self._beside.append(asyncio.create_task(self._delete_sent(), name="delete sent rows"))
        if self._listens:
            listening = listen(self._database, self.outbox.channel, self.wake)
            self._beside.append(asyncio.create_task(listening, name="listen to the outbox"))
        return self

    async def stop(self) -> None:
        """Stop in order: requests under way are awaited and noted, and no others are made."""
        self._stop.set()
        self.wake()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._working, *self._beside, return_exceptions=True)

    async def ended(self) -> None:
        """Returns when it has stopped. Raises the error that ended it, such as NotRunning of its producer."""
        await asyncio.gather(*self._working)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def wake(self) -> None:
        """Look for messages at once: for a program that has just committed some, in the same event loop."""
        for event in self._wakes:
            event.set()

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: for probes."""
        runs = bool(self._working) and not any(task.done() for task in self._working)
        return runs and not self._errors

    @property
    def errors(self) -> Mapping[str, Exception]:
        """Failures at present, by subject: `database`, or the topic; empty when all is well."""
        return dict(self._errors)

    def _prepare(self, connection: Connection) -> None:
        make_locks(self.outbox, connection)
        counts(self.outbox, connection)  # tells if the table of messages is missing
        if self._is_sqlite:
            self._file_lock = FileLock.beside(connection)

    async def _work(self, wake: asyncio.Event) -> None:
        own = link(self._database)
        pause_ms = 0.0
        try:
            while not self._stop.is_set():
                wake.clear()
                began = time.monotonic()
                try:
                    found = await self._batch(own)
                except DATABASE_ERRORS as error:
                    pause_ms = min(max(pause_ms * 2, 100), self._max_pause_ms)
                    self.metrics.database_errors += 1
                    self._failed("database", error)
                    await self._pause(pause_ms * random.uniform(0.5, 1))
                    continue
                pause_ms = 0
                if self._errors.pop("database", None) is not None:
                    log.info("the database of outbox %s answers again", self.outbox.name)
                if not found:
                    await self._idle(wake, (time.monotonic() - began) * 1000)
        except Exception as error:
            log.exception("outbox %s: the relay has ended", self.outbox.name)
            self._errors["relay"] = error
            raise
        finally:
            await own.close()

    async def _batch(self, own: Link) -> bool:
        """One batch; true if something was sent or parked, and more may be there. Raises the database's
        errors.
        """
        if self._is_sqlite and not self._file_lock.acquire():
            return False
        try:
            self._left_topics = self._pauses.waiting(_monotonic_ms())
            claimed = await own.run(self._claim)
            self._first_lock = claimed.next_lock
            if not claimed.rows and not claimed.held:
                return False
            if self._is_sqlite:
                await own.commit()  # a transaction that reads would keep the program's log from being cut
            sending = Sending(self._producer, self._rules, self._stop, _now_ms())
            sent = await sending.run(claimed.rows)
            sent.noted.held.extend(claimed.held)
            if not sent.noted.is_empty:
                await own.once(lambda connection: self._note(connection, sent))
            self._after(sent)
            if sent.fatal is not None:
                raise sent.fatal
            return bool(sent.topics_sent or sent.noted.parked or sent.noted.blocking or claimed.held)
        finally:
            await own.rollback()
            self._file_lock.release()

    def _claim(self, connection: Connection) -> Claimed:
        return claim(
            self.outbox,
            connection,
            batch_size=self._batch_size,
            first_lock=self._first_lock,
            waiting_topics=self._left_topics,
        )

    def _note(self, connection: Connection, sent: Sent) -> None:
        note(self.outbox, connection, sent.noted, _now_ms(), keep_sent=bool(self._retention_ms))

    def _after(self, sent: Sent) -> None:
        """Counts a batch that was noted, and gives topics that failed their pause."""
        metrics, noted = self.metrics, sent.noted
        metrics.batches += 1
        metrics.sent += len(noted.sent)
        metrics.parked += len(noted.parked) + len(noted.blocking)
        metrics.failed_sends += len(sent.topics_failed)
        for seq, reason in {**noted.parked, **noted.blocking}.items():
            log.error("outbox %s: message in row %d is parked: %s", self.outbox.name, seq, reason)
        for topic in sent.topics_sent - sent.topics_failed.keys():
            self._pauses.sent(topic)
            if self._errors.pop(topic, None) is not None:
                log.info("outbox %s: messages to %s are sent again", self.outbox.name, topic)
        for topic, error in sent.topics_failed.items():
            some_sent = topic in sent.topics_sent
            self._pauses.failed(topic, _monotonic_ms(), random.random(), some_sent=some_sent)
            self._failed(topic, error)

    def _failed(self, subject: str, error: Exception) -> None:
        """Tells of a failure; one that lasts is logged once."""
        if subject not in self._errors:
            log.warning("outbox %s: %s: %s", self.outbox.name, subject, reason_of(error))
        self._errors[subject] = error
        if self._on_error is not None:
            self._on_error(error)

    async def _idle(self, wake: asyncio.Event, took_ms: float) -> None:
        """Waits until there may be something to send."""
        least_ms = min(took_ms * IDLE_FACTOR, self._poll_ms)
        most_ms = max(self._poll_ms, took_ms * IDLE_FACTOR)
        left_ms = self._pauses.left_ms(_monotonic_ms())
        if left_ms is not None or self._left_topics:
            # Each look goes through all rows of topics that have a pause: a word of new ones hurries none.
            await self._pause(max(min(left_ms or 0, most_ms), least_ms))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_ms / 1000):
                await wake.wait()

    async def _pause(self, ms: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ms / 1000):
                await self._stop.wait()

    async def _count(self) -> None:
        def work(connection: Connection) -> Counts:
            return counts(self.outbox, connection)

        async def count(own: Link) -> float:
            began = time.monotonic()
            self.metrics.counts = await own.once(work)
            return max(COUNT_INTERVAL_SECONDS, IDLE_FACTOR * (time.monotonic() - began))

        await self._repeat(count, COUNT_INTERVAL_SECONDS)

    async def _delete_sent(self) -> None:
        def work(connection: Connection) -> int | None:
            return delete_sent(self.outbox, connection, _now_ms() - self._retention_ms, DELETED_AT_ONCE)

        async def delete(own: Link) -> float:
            deleted = await own.once(work) or 0
            self.metrics.deleted += deleted
            return DELETE_PAUSE_SECONDS if deleted == DELETED_AT_ONCE else DELETE_INTERVAL_SECONDS

        await self._repeat(delete, DELETE_INTERVAL_SECONDS)

    async def _repeat(self, step: Callable[[Link], Awaitable[float]], after_error_seconds: float) -> None:
        """Repeats a step on a connection of its own, after the pause that it returns."""
        own = link(self._database)
        try:
            while True:
                try:
                    seconds = await step(own)
                except DATABASE_ERRORS as error:
                    log.debug("outbox %s: %s", self.outbox.name, reason_of(error))
                    seconds = after_error_seconds
                await asyncio.sleep(seconds)
        finally:
            await own.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
