"""The history of all clusters in an SQLite file, so that charts continue after a restart of the console.

Each cluster has a ring of rows: a point takes the place of the oldest one where the ring is full. So the file
stops growing after a day.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from orbitmq.console.history import DAY_SECONDS, MOST_POINTS
from orbitmq.protocol.errors import OrbitError

log = logging.getLogger(__name__)

T = TypeVar("T")

APPLICATION_ID = 0x4F724849
"""Marks the file as a history of a console: no other database is ever written to."""
VERSION = 1
_TABLE = """
CREATE TABLE points (
    cluster TEXT NOT NULL, slot INTEGER NOT NULL, at_seconds REAL NOT NULL, numbers TEXT NOT NULL,
    PRIMARY KEY (cluster, slot)
) WITHOUT ROWID
"""

Point = tuple[float, dict[str, float | None]]
"""A time (seconds since 1970), and a number by name of its series."""


class HistoryUnusable(OrbitError):
    """The file cannot be used; the message says why."""


class HistoryFile:
    """The file, open in one process at a time. SQLite runs in a thread of its own."""

    def __init__(self, path: Path, size: int = MOST_POINTS) -> None:
        self._path = path
        self._size = size
        self._thread = ThreadPoolExecutor(1, "history file")
        self._database: sqlite3.Connection | None = None
        self._next: dict[str, int] = {}
        self._failing = False

    async def open(self, now_seconds: float) -> None:
        """Opens the file, or makes it, and drops points of more than a day ago.

        Raises HistoryUnusable. A file of something else is not touched.
        """
        try:
            await self._do(lambda: self._connect(now_seconds - DAY_SECONDS))
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            hint = " (another console uses it)" if "locked" in str(error) else ""
            raise HistoryUnusable(f"the history {self._path} cannot be used: {error}{hint}") from None
        except HistoryUnusable:
            self._thread.shutdown()
            raise

    async def read(self, cluster: str) -> list[Point]:
        """The points of a cluster, oldest first. Raises HistoryUnusable."""
        try:
            return await self._do(lambda: self._read(cluster))
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise HistoryUnusable(f"the history {self._path} is damaged: {error}") from None

    async def add(self, cluster: str, at_seconds: float, numbers: Mapping[str, float | None]) -> None:
        """Writes a point. A write that fails is an error in the log, and the charts in memory continue."""
        try:
            await self._do(lambda: self._add(cluster, at_seconds, numbers))
        except sqlite3.Error as error:
            # A full disk fails at every point: it is logged once.
            if not self._failing:
                log.error("points of charts are not kept in %s: %s", self._path, error)
            self._failing = True
            return
        if self._failing:
            log.info("points of charts are kept in %s again", self._path)
        self._failing = False

    async def close(self) -> None:
        """Lets other processes have the file."""
        if self._database is not None:
            await self._do(self._database.close)
            self._database = None
        self._thread.shutdown()

    async def _do(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _connect(self, oldest_seconds: float) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=1, check_same_thread=False)
        try:
            # The marks are read before anything is set: setting the journal's mode would write to the file.
            [application_id] = database.execute("PRAGMA application_id").fetchone()
            [version] = database.execute("PRAGMA user_version").fetchone()
            [tables] = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            is_new = (application_id, version, tables) == (0, 0, 0)
            if not is_new and application_id != APPLICATION_ID:
                raise HistoryUnusable(f"{self._path} is a database of something else: give another file")
            if not is_new and version != VERSION:
                raise HistoryUnusable(
                    f"{self._path} is of another version of the console ({version}, and not {VERSION}): "
                    "give another file, or delete it"
                )
            [found] = database.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise HistoryUnusable(f"the history {self._path} is damaged: {found}: delete it")
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            # A power cut may cost the last points, and never the file.
            database.execute("PRAGMA synchronous = NORMAL")
            with database:
                database.execute("BEGIN IMMEDIATE")
                if is_new:
                    database.execute(_TABLE)
                    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    database.execute(f"PRAGMA user_version = {VERSION}")
                # Clusters that are no longer shown leave nothing behind.
                database.execute("DELETE FROM points WHERE at_seconds < ?", (oldest_seconds,))
            self._path.chmod(0o600)
        except BaseException:
            database.close()
            raise
        self._database = database

    def _read(self, cluster: str) -> list[Point]:
        rows = self._opened.execute(
            "SELECT slot, at_seconds, numbers FROM points WHERE cluster = ? ORDER BY at_seconds", (cluster,)
        ).fetchall()
        if rows:
            self._next[cluster] = (rows[-1][0] + 1) % self._size
        return [(at, msgspec.json.decode(numbers, type=dict[str, float | None])) for _, at, numbers in rows]

    def _add(self, cluster: str, at_seconds: float, numbers: Mapping[str, float | None]) -> None:
        slot = self._next.get(cluster, 0)
        with self._opened as database:
            database.execute(
                "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)",
                (cluster, slot, at_seconds, msgspec.json.encode(dict(numbers)).decode()),
            )
        self._next[cluster] = (slot + 1) % self._size

    @property
    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            raise sqlite3.ProgrammingError("the file is not open")
        return self._database
