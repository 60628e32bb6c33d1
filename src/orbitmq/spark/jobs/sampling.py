"""Looking at a cluster every few seconds, and keeping what was seen in a folder of Parquet files.

A folder only grows by whole files: each is written under another name, brought to the disk and renamed. A
crash loses the samples since the last file, and nothing else; the next run adds to the same folder.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.access import Access
from orbitmq.admin.admin import Admin
from orbitmq.flags import Command, Seconds, all_of
from orbitmq.spark.jobs.job import JobFailed, JobSetup, JobUi

if TYPE_CHECKING:
    from pyarrow import dataset

FILE_SECONDS = 60.0
"""So much is in one file at most, and so much is lost by a crash at most."""
SAMPLES = re.compile(r"[0-9-]+\.parquet")
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
        self._need_samples_alone()
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

    @classmethod
    def existing(cls, folder: Path, schema: pa.Schema) -> SampleTable:
        """The table of an earlier run. Raises JobFailed for a folder without samples, and makes none."""
        if not _whole(folder):
            raise JobFailed(f"{folder} holds no samples: nothing was sampled yet, or it is another folder")
        return cls(folder, schema)

    @classmethod
    def read(cls, folder: Path, schema: pa.Schema) -> pa.Table | dataset.Dataset:
        """All rows of a folder; None in a column that a file lacks."""
        from pyarrow import dataset  # loads pandas

        files = [str(path) for path in _whole(folder)]
        return dataset.dataset(files, schema, format="parquet") if files else schema.empty_table()

    def _need_samples_alone(self) -> None:
        """Raises JobFailed for a folder of something else, or whose newest file cannot be read."""
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        strange = sorted(name for name in names if name[0] not in "_." and not SAMPLES.fullmatch(name))
        if strange:
            raise JobFailed(
                f"{self._folder} holds other things, as {strange[0]}: samples need their own folder"
            )
        for newest in _whole(self._folder)[-1:]:
            try:
                columns = pq.read_schema(newest).names
            except (pa.ArrowInvalid, OSError) as error:
                raise JobFailed(f"{newest} is damaged, take it away: {error}") from None
            if not set(columns) <= set(self._schema.names):
                raise JobFailed(f"{self._folder} holds samples of another job: give this one its own folder")

    def last(self) -> list[dict[str, Any]]:
        """The rows of the newest file; empty without one."""
        files = _whole(self._folder)
        return pq.read_table(files[-1], schema=self._schema).to_pylist() if files else []

    def holds(self, column: str, value: str) -> bool:
        """True if a row of any file has this value. Raises JobFailed for a file that cannot be read."""
        for file in reversed(_whole(self._folder)):
            try:
                rows = pq.read_table(file, schema=self._schema, columns=[column])
            except (pa.ArrowInvalid, OSError) as error:
                raise JobFailed(f"{file} is damaged, take it away: {error}") from None
            if value in rows[column].unique().to_pylist():
                return True
        return False


def _whole(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.parquet"))


def admin_of(setup: JobSetup, timeout_ms: int = 5000) -> Admin:
    """An operator's connections to the cluster of a job."""
    access = Access(setup.connecting.credentials, setup.connecting.ssl_context())
    return Admin(setup.namesrv, timeout_ms=timeout_ms, **access.options)


def sampling_flags(what: str, *, every_s: float, timeout_ms: int) -> Callable[[Command], Command]:
    """The flags of a job that samples, with their defaults: --every, --samples, --timeout-ms."""
    return all_of(
        click.option(
            "--every", "every_s", type=Seconds(0.1), default=every_s, help=f"Time between two {what}."
        ),
        click.option(
            "--samples",
            type=click.IntRange(0),
            help=f"Number of {what}; 0: only report from earlier ones. [default: until Ctrl-C]",
        ),
        click.option(
            "--timeout-ms", type=click.IntRange(1), default=timeout_ms, help="Timeout of one request."
        ),
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
