"""Tables from and to their files: a snapshot on the loop, its write in a thread, several changes in one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.errors import Malformed
from orbitmq.server.errors import StartError
from orbitmq.store.config_files import read_text, write_text

log = logging.getLogger(__name__)

GROUPING_SECONDS = 0.01
"""Changes within this time of the first one go into one write."""
RETRY_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 2.0


@dataclass(slots=True, frozen=True)
class TableFile:
    """A table with a file of its own; `snapshot` is called on the loop, the text it makes in the thread."""

    path: Path
    snapshot: Callable[[], Callable[[], str]]
    is_ours: bool = True
    """Written at the end even if nothing changed; a file of the user's is not."""
    mode: int = 0o644
    """Permissions of the file."""


def made_at_once(to_text: Callable[[], str]) -> Callable[[], Callable[[], str]]:
    """The snapshots of a table so small that its text may be made on the loop."""

    def snapshot() -> Callable[[], str]:
        text = to_text()
        return lambda: text

    return snapshot


def load_table(path: Path, load_text: Callable[[str], None]) -> bool:
    """Fills a table from its file, or from the `.bak` if the file cannot be used. True if there was either.

    Raises StartError where there are files and none can be used: to start over from an empty table would
    reset what it held, and no error would tell.
    """
    reasons: list[str] = []

    def is_usable(text: str) -> bool:
        try:
            load_text(text)
        except Malformed as error:
            reasons.append(str(error))
            return False
        return True

    try:
        found = read_text(path, is_usable)
    except OSError as error:
        raise StartError(
            f"{error.filename or path} cannot be read: {error.strerror}; make it a file this user may read"
        ) from None
    if found.text is not None and not is_usable(found.text):
        raise StartError(f"{path} and its .bak cannot be read: {reasons[0]}; restore one of them")
    return found.text is not None


@dataclass(eq=False, repr=False)
class TableWriter:
    """Writes dirty tables. `on_saved(tables, is_change)` runs on the loop once their files hold the marked
    state; `is_change` is true where they were to be written soon: a user has changed them.

    After a write comes a pause of `pause_per_write` times its length, of two seconds at most: then a flood of
    changes is one write for many of them.

    A write that fails is logged and tried again; replies that promise the change wait until their deadline.
    """

    _files: Mapping[str, TableFile]
    _dirty_tables: DirtyTables
    _executor: Executor
    _on_saved: Callable[[Iterable[str], bool], None]
    _: KW_ONLY
    pause_per_write: float = 0.0

    def __post_init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._writing: set[asyncio.Task[bool]] = set()

    def notice(self) -> None:
        """Starts a write if a table is due soon."""
        if self._dirty_tables.any_soon and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._save_soon(), name="save tables")

    async def _save_soon(self) -> None:
        pause = 0.0
        while self._dirty_tables.any_soon:
            await asyncio.sleep(max(GROUPING_SECONDS, pause))
            began = time.monotonic()
            if not await self._write(self._dirty_tables.drain_soon(), is_change=True):
                await asyncio.sleep(RETRY_SECONDS)
            pause = min(LONGEST_PAUSE_SECONDS, self.pause_per_write * (time.monotonic() - began))

    async def save(self, table: str) -> None:
        """Writes a table at its interval, if it is dirty."""
        if self._dirty_tables.clear(table):
            await self._write({table})

    async def _write(self, tables: set[str], *, is_change: bool = False) -> bool:
        """Writes tables. True if that was done. Continues to its end if the caller is cancelled: a thread has
        the tables, and only at its end is it known if they are still to be written.
        """
        writing = asyncio.create_task(self._write_now(tables, is_change), name="write tables")
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return await asyncio.shield(writing)

    async def _write_now(self, tables: set[str], is_change: bool) -> bool:
        try:
            snapshots = [
                (self._files[table].path, self._files[table].snapshot(), self._files[table].mode)
                for table in sorted(tables)
                if table in self._files
            ]
            await asyncio.get_running_loop().run_in_executor(self._executor, _write_all, snapshots)
        except (OSError, MemoryError) as error:
            log.error("cannot save %s: %r", ", ".join(sorted(tables)), error)
            for table in tables:
                self._dirty_tables.mark(table)
            return False
        # A table that changed again while it was written is reported after its next write: a call that waits
        # for it may have made just that change.
        saved = [table for table in sorted(tables) if not self._dirty_tables.is_due(table)]
        self._on_saved(saved, is_change)
        return True

    async def save_dirty(self) -> None:
        """Writes all dirty tables at the end of the process. Waits for writes under way."""
        await self._end_writes()
        await self._write(self._dirty_tables.drain_all())

    async def save_all(self) -> None:
        """Writes dirty tables and all of ours at the end of the process. Waits for writes under way."""
        await self._end_writes()
        await self._write(
            self._dirty_tables.drain_all() | {name for name, file in self._files.items() if file.is_ours}
        )

    async def _end_writes(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # Those that fail mark their tables again.
        await asyncio.gather(*self._writing, return_exceptions=True)


def _write_all(snapshots: list[tuple[Path, Callable[[], str], int]]) -> None:
    for path, text_of, mode in snapshots:
        write_text(path, text_of(), mode)
