"""The claim of a run on the dead letters that it sends: kept by a thread of the driver while Spark works."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from orbitmq.admin.admin import NoBroker
from orbitmq.admin.dead_letters.claims import RENEW_SECONDS, ClaimedElsewhere, Claims
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.spark.jobs.job import JobFailed, JobSetup, JobUi
from orbitmq.spark.jobs.sampling import admin_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 90.0
"""Wait for a claim: longer than one lives whose holder was killed."""
PAUSE_SECONDS = 1.0
"""Pause before a claim that was not to be had is asked for again."""


@contextmanager
def claimed(
    spark: SparkSession, setup: JobSetup, letters: Sequence[tuple[str, str]], ui: JobUi
) -> Iterator[None]:
    """Within the block no other redrive sends the dead letters of these groups at these brokers.

    If the claim is lost, Spark's work in the block is ended. Raises JobFailed if the claim is not to be had,
    and if it is lost.
    """
    keeper = _Keeper(spark, setup, sorted(letters), ui)
    keeper.start()
    while not keeper.decided.wait(0.2):  # a wait without an end would hold back Ctrl-C
        pass
    if keeper.problem is not None:
        raise JobFailed(f"nothing was sent: {keeper.problem}. Run the job again when that is over")
    spark.addTag(keeper.tag)
    try:
        yield
        keeper.releases = True
    except Exception as error:
        if keeper.problem is not None:
            raise JobFailed(keeper.loss) from error
        raise
    finally:
        spark.removeTag(keeper.tag)
        keeper.stopping.set()
        keeper.join()
    if keeper.problem is not None:
        raise JobFailed(keeper.loss)


class _Keeper(threading.Thread):
    def __init__(
        self, spark: SparkSession, setup: JobSetup, letters: Sequence[tuple[str, str]], ui: JobUi
    ) -> None:
        super().__init__(name="claim on dead letters", daemon=True)
        self.tag = f"redrive-{uuid.uuid4().hex}"
        self.decided = threading.Event()
        self.stopping = threading.Event()
        self.releases = False
        """Everything that was sent is stored. Otherwise the claim expires, and what is on its way arrives."""
        self.problem: OrbitError | None = None
        self._spark, self._setup, self._letters, self._ui = spark, setup, letters, ui

    @property
    def loss(self) -> str:
        """The error of a claim that was lost."""
        return f"the redrive ended: its claim is lost: {self.problem}. Run the job again to carry it on"

    def run(self) -> None:
        try:
            asyncio.run(self._keep())
        except OrbitError as error:
            self.problem = error
        finally:
            self.decided.set()

    async def _keep(self) -> None:
        async with admin_of(self._setup) as admin:
            claims = Claims(admin, self.tag)
            registered = {one.name for one in await admin.brokers()}
            # Of a lake the brokers may be gone: no other program can read those dead letters to send them.
            letters = [(group, broker) for group, broker in self._letters if broker in registered]
            await self._take(claims, letters)
            self.decided.set()
            while not await asyncio.to_thread(self.stopping.wait, RENEW_SECONDS / 2):
                try:
                    # A broker that is away may come back before the claim is over, which decides.
                    with suppress(NetError, NoBroker, BrokerRefused):
                        for group, broker in letters:
                            await claims.hold(group, broker)
                    for group, broker in letters:
                        claims.check(group, broker)
                except ClaimedElsewhere as error:
                    self._lose(error)
                    return
            if self.releases:
                for group in {group for group, _ in letters}:
                    await claims.release(group)

    async def _take(self, claims: Claims, letters: Sequence[tuple[str, str]]) -> None:
        """Claims all, in one order everywhere: two runs never wait for each other."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        has_told = False
        while True:
            try:
                for group, broker in letters:
                    await claims.hold(group, broker)
                return
            except (ClaimedElsewhere, NetError, NoBroker) as error:
                if time.monotonic() > deadline or self.stopping.is_set():
                    raise
                if not has_told:
                    self._ui.say(f"waiting: {error}")
                    has_told = True
                await asyncio.sleep(PAUSE_SECONDS)

    def _lose(self, error: OrbitError) -> None:
        self.problem = error
        self._spark.interruptTag(self.tag)
