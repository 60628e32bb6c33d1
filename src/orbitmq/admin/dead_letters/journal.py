"""The journal of redrives: an SQLite file.

A dead letter is recorded as under way before it is sent, and as sent afterwards. So after a kill, only the
outcomes of dead letters under way are unknown, and these are one batch at most.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from orbitmq.admin.dead_letters.dead_letter import Place
from orbitmq.admin.results import INTERNAL
from orbitmq.protocol.errors import OrbitError

P = ParamSpec("P")
T = TypeVar("T")

PLANNED, SENDING, SENT, SKIPPED, REFUSED, GONE, STOPPED, UNSURE = (
    *("planned", "sending", "sent", "skipped", "refused", "gone", "stopped", "unsure"),
)
"""States of a dead letter. `unsure`: stopped while a broker did not say whether it has it."""
PLANNING, RUNNING, DONE = "planning", "running", "done"
"""States of a run, besides `stopped`."""

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, cluster TEXT NOT NULL, consumer_group TEXT NOT NULL, asked TEXT NOT NULL,
    user TEXT NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER, state TEXT NOT NULL,
    error TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS dead_letters (
    run TEXT NOT NULL, broker TEXT NOT NULL, queue_id INTEGER NOT NULL, queue_offset INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL, unique_id TEXT NOT NULL, topic TEXT NOT NULL, state TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '', sent_ms INTEGER, sent_id TEXT,
    PRIMARY KEY (run, broker, queue_id, queue_offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner (id TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_state ON dead_letters (run, state);
CREATE INDEX IF NOT EXISTS by_place ON dead_letters (broker, queue_id, queue_offset);
"""


class JournalUnusable(OrbitError):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """One redrive."""

    id: str
    cluster: str
    group: str
    asked: dict[str, Any] = field(metadata=INTERNAL)
    """The user's request as JSON values, an edited body among them."""
    user: str
    began_ms: int
    ended_ms: int | None
    state: str
    error: str
    """The reason that it waits, or was stopped."""
    counts: dict[str, int]
    """Dead letters by state."""

    @property
    def to(self) -> str:
        """`origin` or `retry`: the topic to which dead letters are sent."""
        return str(self.asked["to"])

    @property
    def rate(self) -> float:
        """Dead letters a second."""
        return float(self.asked["rate"])


@dataclass(frozen=True, slots=True)
class Entry:
    """One dead letter of a run."""

    place: Place
    stored_ms: int
    unique_id: str
    """The unique id that it is sent with: by it one can see whether it arrived."""
    topic: str
    state: str
    note: str = ""
    sent_ms: int | None = None
    sent_id: str | None = None


class RedriveJournal:
    """The file, open in one process at a time. Methods block: `do` runs them in a thread of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "redrive journal")
        self._open: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """True if anything was ever noted."""
        return self._path.exists()

    async def do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One of the methods below, in the journal's thread. Raises JournalUnusable."""

        def act() -> T:
            try:
                return function(*args, **kwargs)
            except sqlite3.Error as error:
                hint = " (another process uses it)" if "locked" in str(error) else ""
                raise JournalUnusable(f"the journal {self._path} cannot be used: {error}{hint}") from None
            except OSError as error:
                raise JournalUnusable(f"the journal {self._path} cannot be used: {error}") from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    @property
    def _database(self) -> sqlite3.Connection:
        if self._open is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=1, check_same_thread=False)
            try:
                # Two processes that carried on the same run would send twice.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                with database:
                    _rename_old_tables(database)
                with database:
                    database.executescript(_TABLES)
                    database.execute("UPDATE runs SET error = error")
            except sqlite3.Error:
                database.close()
                raise
            self._path.chmod(0o600)
            self._open = database
        return self._open

    def owner(self) -> str:
        """The name of this journal at brokers: claims that it held before a kill are its own again."""
        with self._database as database:
            row = database.execute("SELECT id FROM owner").fetchone()
            if row is None:
                row = (secrets.token_hex(8),)
                database.execute("INSERT INTO owner (id) VALUES (?)", row)
        return str(row[0])

    def begin(self, cluster: str, group: str, asked: dict[str, Any], user: str) -> str:
        """A new run, in the state `planning`; gives its id."""
        run = secrets.token_hex(6)
        with self._database as database:
            database.execute(
                "INSERT INTO runs (id, cluster, consumer_group, asked, user, began_ms, state) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run, cluster, group, json.dumps(asked), user, _now_ms(), PLANNING),
            )
        return run

    def forget_plan(self, run: str) -> None:
        """Starts the plan of a run over: it was cut off before anything had left."""
        with self._database as database:
            database.execute("DELETE FROM dead_letters WHERE run = ?", (run,))

    def plan(self, run: str, entries: Iterable[Entry]) -> None:
        """Adds dead letters to a run."""
        with self._database as database:
            database.executemany(
                "INSERT OR REPLACE INTO dead_letters "
                "(run, broker, queue_id, queue_offset, stored_ms, unique_id, topic, state, note) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        run,
                        one.place.broker,
                        one.place.queue_id,
                        one.place.queue_offset,
                        one.stored_ms,
                        one.unique_id,
                        one.topic,
                        one.state,
                        one.note,
                    )
                    for one in entries
                ],
            )

    def set_state(self, run: str, state: str, error: str = "") -> None:
        """Sets the state of a run; one that is over keeps no dead letter under way."""
        with self._database as database:
            ended = None if state in (PLANNING, RUNNING) else _now_ms()
            database.execute(
                "UPDATE runs SET state = ?, error = ?, ended_ms = ? WHERE id = ?", (state, error, ended, run)
            )
            if ended is not None:
                for before, after in ((PLANNED, STOPPED), (SENDING, UNSURE)):
                    database.execute(
                        "UPDATE dead_letters SET state = ? WHERE run = ? AND state = ?", (after, run, before)
                    )

    def claim(self, run: str, most: int, after: Place | None = None) -> list[Entry]:
        """The next planned dead letters of a run, recorded as under way when this returns; with `after` those
        of later places.
        """
        where = "run = ? AND state = ?"
        values: tuple[object, ...] = (run, PLANNED)
        if after is not None:
            where += " AND (broker, queue_id, queue_offset) > (?, ?, ?)"
            values = (*values, after.broker, after.queue_id, after.queue_offset)
        with self._database as database:
            found = self._entries(where, values, most)
            database.executemany(
                "UPDATE dead_letters SET state = ? WHERE run = ? AND broker = ? AND queue_id = ? "
                "AND queue_offset = ?",
                [
                    (SENDING, run, one.place.broker, one.place.queue_id, one.place.queue_offset)
                    for one in found
                ],
            )
        return found

    def record_outcomes(self, run: str, entries: Sequence[Entry]) -> None:
        with self._database as database:
            database.executemany(
                "UPDATE dead_letters SET state = ?, note = ?, sent_ms = ?, sent_id = ? "
                "WHERE run = ? AND broker = ? AND queue_id = ? AND queue_offset = ?",
                [
                    (
                        one.state,
                        one.note,
                        one.sent_ms,
                        one.sent_id,
                        run,
                        one.place.broker,
                        one.place.queue_id,
                        one.place.queue_offset,
                    )
                    for one in entries
                ],
            )

    def under_way(self, run: str) -> list[Entry]:
        """Dead letters that were begun and have no outcome yet."""
        return self._entries("run = ? AND state = ?", (run, SENDING), -1)

    def entries(self, run: str, state: str | None, most: int, skip: int = 0) -> list[Entry]:
        if state is None:
            return self._entries("run = ?", (run,), most, skip)
        return self._entries("run = ? AND state = ?", (run, state), most, skip)

    def claimed(self, cluster: str, group: str, letters: Sequence[tuple[Place, int]]) -> dict[Place, str]:
        """The run that has sent or will send a dead letter, for each of `letters` that has one.

        `letters` are places with store times: a topic that was deleted and made again has other dead letters
        at the same places.
        """
        found = {}
        for place, stored_ms in letters:
            row = self._database.execute(
                "SELECT dead_letters.run FROM dead_letters JOIN runs ON runs.id = dead_letters.run "
                "WHERE broker = ? AND queue_id = ? AND queue_offset = ? AND stored_ms = ? "
                "AND cluster = ? AND consumer_group = ? AND dead_letters.state IN (?, ?, ?, ?) "
                "AND runs.state != ? LIMIT 1",
                (
                    *(place.broker, place.queue_id, place.queue_offset, stored_ms, cluster, group),
                    *(PLANNED, SENDING, SENT, UNSURE, PLANNING),
                ),
            ).fetchone()
            if row is not None:
                found[place] = row[0]
        return found

    def run(self, run: str) -> Run | None:
        rows = self._runs("WHERE id = ?", (run,))
        return rows[0] if rows else None

    def runs(self, cluster: str | None = None, most: int = 100) -> list[Run]:
        """The last runs, of one cluster or of all, newest first."""
        if cluster is None:
            return self._runs("ORDER BY began_ms DESC, id LIMIT ?", (most,))
        return self._runs("WHERE cluster = ? ORDER BY began_ms DESC, id LIMIT ?", (cluster, most))

    def unfinished(self) -> list[Run]:
        """Runs that were cut off, oldest first."""
        return self._runs("WHERE state IN (?, ?) ORDER BY began_ms", (PLANNING, RUNNING))

    def close(self) -> None:
        """Ends the thread, and lets other processes have the file."""
        if self._open is not None:
            self._thread.submit(self._open.close).result()
            self._open = None
        self._thread.shutdown()

    def _runs(self, where: str, values: tuple[object, ...]) -> list[Run]:
        rows = self._database.execute(
            "SELECT id, cluster, consumer_group, asked, user, began_ms, ended_ms, state, error "
            f"FROM runs {where}",
            values,
        ).fetchall()
        return [
            Run(row[0], row[1], row[2], json.loads(row[3]), *row[4:], self._counts(row[0]))  # type: ignore[call-arg]
            for row in rows
        ]

    def _counts(self, run: str) -> dict[str, int]:
        return dict(
            self._database.execute(
                "SELECT state, count(*) FROM dead_letters WHERE run = ? GROUP BY state ORDER BY state", (run,)
            ).fetchall()
        )

    def _entries(self, where: str, values: tuple[object, ...], most: int, skip: int = 0) -> list[Entry]:
        rows = self._database.execute(
            "SELECT broker, queue_id, queue_offset, stored_ms, unique_id, topic, state, note, sent_ms, "
            f"sent_id FROM dead_letters WHERE {where} "
            "ORDER BY broker, queue_id, queue_offset LIMIT ? OFFSET ?",
            (*values, most, skip),
        ).fetchall()
        return [Entry(Place(*row[:3]), *row[3:]) for row in rows]


def _rename_old_tables(database: sqlite3.Connection) -> None:
    """Renames the table and the column of journals of version 0.2: both, or neither."""
    database.execute("BEGIN IMMEDIATE")
    names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "letters" in names and "dead_letters" not in names:
        database.execute("ALTER TABLE letters RENAME TO dead_letters")
        database.execute("ALTER TABLE runs RENAME COLUMN letter_group TO consumer_group")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
