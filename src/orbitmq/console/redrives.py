"""Redrives of dead letters that run in this console; the next start continues those that were cut off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from orbitmq.admin import Admin
from orbitmq.admin.dead_letters.asked import Asked, BadRequest
from orbitmq.admin.dead_letters.journal import STOPPED, Entry, JournalUnusable, RedriveJournal, Run
from orbitmq.admin.dead_letters.planning import Preview
from orbitmq.admin.dead_letters.redrive import Redrive
from orbitmq.console.security.audit import AuditEntry, AuditLog

log = logging.getLogger(__name__)

MOST_RUNNING = 16
"""Runs at a time; each has its own task and at most one batch of dead letters in memory."""


class Redrives:
    """One journal for all clusters. It is opened when there is something to note or to continue."""

    def __init__(self, path: Path, audit: AuditLog) -> None:
        self._journal = RedriveJournal(path)
        self._audit = audit
        self._clusters: dict[str, Redrive] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, admins: Mapping[str, Admin]) -> None:
        """Goes on with what was cut off. A journal that cannot be read is reported in the log."""
        self._clusters = {name: Redrive(admin, name, self._journal) for name, admin in admins.items()}
        if not self._journal.exists:
            return
        try:
            unfinished = await self._journal.do(self._journal.unfinished)
        except JournalUnusable as error:
            log.error("no redrive goes on: %s", error)
            return
        for run in unfinished:
            if run.cluster in self._clusters:
                log.info("redrive %s of %s goes on", run.id, run.group)
                self._launch(run.cluster, run.id)

    async def close(self) -> None:
        """Interrupts what runs; the next start continues it."""
        for task in self._tasks.values():
            task.cancel()
        for task in list(self._tasks.values()):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._journal.close()

    async def preview(self, cluster: str, group: str, asked: Asked) -> Preview:
        return await self._clusters[cluster].preview(group, asked)

    async def begin(self, cluster: str, group: str, asked: Asked, user: str) -> Run:
        """Begins a redrive. Raises BadRequest, JournalUnusable."""
        if len(self._tasks) >= MOST_RUNNING:
            raise BadRequest(f"{MOST_RUNNING} redrives run already: stop one, or wait")
        run_id = await self._clusters[cluster].begin(group, asked, user)
        self._launch(cluster, run_id)
        return await self.run(cluster, run_id)

    async def stop(self, cluster: str, run_id: str) -> Run:
        """Has a run end after the dead letters that are under way. Raises BadRequest."""
        run = await self.run(cluster, run_id)
        task = self._tasks.get(run_id)
        if task is None:
            raise BadRequest(f"run {run_id} does not run: it is {run.state}")
        self._clusters[cluster].stop(run_id)
        # It may be waiting for a broker that is gone.
        await asyncio.wait([task], timeout=5)
        return await self.run(cluster, run_id)

    async def run(self, cluster: str, run_id: str) -> Run:
        """One run. Raises BadRequest."""
        run = await self._journal.do(self._journal.run, run_id) if self._journal.exists else None
        if run is None or run.cluster != cluster:
            raise BadRequest(f"no redrive of this cluster is named {run_id}")
        return run

    async def runs(self, cluster: str) -> list[Run]:
        """The last runs of a cluster, newest first."""
        return await self._journal.do(self._journal.runs, cluster) if self._journal.exists else []

    async def entries(self, run_id: str, state: str | None, most: int, skip: int) -> list[Entry]:
        return await self._journal.do(self._journal.entries, run_id, state, most, skip)

    def _launch(self, cluster: str, run_id: str) -> None:
        task = asyncio.create_task(self._carry_out(cluster, run_id), name=f"redrive {run_id}")
        self._tasks[run_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run_id, None))

    async def _carry_out(self, cluster: str, run_id: str) -> None:
        try:
            run = await self._clusters[cluster].carry_out(run_id)
        except JournalUnusable as error:
            log.error("redrive %s goes on with the next start: %s", run_id, error)
            return
        except Exception as error:
            log.exception("redrive %s failed", run_id)
            await self._journal.do(
                self._journal.set_state, run_id, STOPPED, f"{type(error).__name__}: {error}"
            )
            run = await self.run(cluster, run_id)
        self._audit.write(
            AuditEntry(
                at_ms=time.time_ns() // 1_000_000,
                user=run.user,
                address="",
                action="redrive_ended",
                target=f"{cluster}/{run.group}",
                outcome=run.state,
                after={"run": run.id, **run.counts},
                error=run.error or None,
            )
        )
