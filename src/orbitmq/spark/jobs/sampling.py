"""Looking at a cluster every few seconds, and keeping what was seen in a folder of Parquet files.

A folder only grows by whole files: each is written under another name, brought to the disk and renamed. What
was sampled since the last file is lost by a crash, and nothing else; the next run adds to the same folder.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.admin.admin import Admin
from orbitmq.spark.jobs.job import JobSetup, JobUi

FILE_SECONDS = 60.0
"""So much is in one file at most, and so much is lost by a crash at most."""
LEFT_SECONDS = 3600
"""An unfinished file that is older was left by a crash, and is taken away."""


class SampleTable:
    """A folder to which rows are added; every row has all columns of `schema`, None where it has no value."""

    def __init__(self, folder: Path, schema: pa.Schema, file_seconds: float = FILE_SECONDS) -> None:
        self._folder = folder
        self._schema = schema
        self._file_seconds = file_seconds
        self._rows: list[Mapping[str, Any]] = []
        self._began = time.monotonic()
        self._files = 0
        self.rows = 0
        """Rows that were added."""
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("_*.parquet"):
            # Not that of another job that is writing it.
            if time.time() - unfinished.stat().st_mtime > LEFT_SECONDS:
                unfinished.unlink(missing_ok=True)

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Adds rows; now and then they become a file. Raises OSError."""
        self._rows += rows
        self.rows += len(rows)
        if time.monotonic() - self._began >= self._file_seconds:
            self.flush()

    def flush(self) -> None:
        """Makes a file of what is not in one yet. Raises OSError."""
        self._began = time.monotonic()
        if not self._rows:
            return
        table = pa.Table.from_pylist(self._rows, schema=self._schema)
        self._files += 1
        name = f"{time.time_ns()}-{os.getpid()}-{self._files}.parquet"
        # Spark does not read files whose names begin like this.
        unfinished = self._folder / f"_{name}"
        with unfinished.open("wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._folder / name)
        self._rows = []

    def last(self) -> list[dict[str, Any]]:
        """The rows of the newest file; empty without one."""
        files = sorted(self._folder.glob("[0-9]*.parquet"))
        return pq.read_table(files[-1], schema=self._schema).to_pylist() if files else []


def admin_of(setup: JobSetup, timeout_ms: int) -> Admin:
    """An operator's connections to the cluster of a job."""
    who = setup.connecting.credentials
    return Admin(
        setup.namesrv,
        timeout_ms=timeout_ms,
        access_key=who.access_key if who else None,
        secret_key=who.secret_key if who else None,
        security_token=who.security_token if who else None,
        tls=setup.connecting.ssl_context() or False,
    )


def sample(
    look: Callable[[], Awaitable[str]],
    ui: JobUi,
    what: str,
    *,
    every_s: float,
    samples: int | None,
    close: Callable[[], Awaitable[None]],
) -> int:
    """Calls `look` every `every_s` seconds, so many times, or until Ctrl-C; how often it did.

    A look that takes longer than that lets the next ones out that it overlaps. `look` gives a few words for
    whoever watches.
    """
    taken = 0

    async def work() -> None:
        nonlocal taken
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            with ui.progress(what, total=samples) as bar:
                while samples is None or taken < samples:
                    await asyncio.sleep(due - loop.time())
                    bar.note(await look())
                    taken += 1
                    bar.advance()
                    late = loop.time() - due
                    due += every_s * max(1, -(-late // every_s))
        finally:
            await close()

    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        ui.say(f"stopped after {taken} samples")
    return taken
