"""One of several instances: its session with the consensus store, and its way into the sources."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orbitmq.client.core.calling import is_cancelled
from orbitmq.controller.leadership import Leadership
from orbitmq.delay_service.engine import read_clocks
from orbitmq.delay_service.options import DelaySettings
from orbitmq.delay_service.rules.holding import SECRET_KEY, Holding
from orbitmq.delay_service.rules.sharing import RECORD
from orbitmq.delay_service.sources.reading import SourceState
from orbitmq.delay_service.sources.writing import SourceWriter
from orbitmq.delay_service.turn import Turn
from orbitmq.server.controller.consensus import ConsensusError
from orbitmq.server.controller.session import RETRY_SECONDS, Session
from orbitmq.server.controller.stores import open_store

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""Interval at which the end of a lease is noticed; each send looks by itself."""


@dataclass(eq=False, repr=False)
class InstanceLease:
    """The lease of this instance, from `run` to `stop`; it may run again afterwards.

    Making it raises OptionError for an address that is none.
    """

    _settings: DelaySettings
    _writer: SourceWriter
    _states: Callable[[], Iterable[SourceState]]

    def __post_init__(self) -> None:
        own_id = self._settings.delay_instance or f"{socket.gethostname()}:{self._settings.folder.resolve()}"
        self._leadership = Leadership(self._settings.store_group, own_id, self._settings.delay_http)
        self._holding = Holding(self._leadership, lambda: secrets.token_hex(32))
        self._store = open_store(self._settings)
        self._session: Session | None = None

    @property
    def problem(self) -> str:
        """The reason why the consensus store cannot be used; empty while it can."""
        return "" if self._session is None else self._session.error

    @property
    def holder(self) -> str:
        """Name of the instance that delivers; empty while none does, as far as this one knows."""
        return self._leadership.leader_id

    def term(self) -> int:
        return self._holding.term(_now())

    async def write(self, queue: str, body: bytes) -> None:
        """Writes a record into a queue of a source. Raises what sending raises."""
        for state in self._states():
            for one in state.behind:
                if str(one) == queue:
                    await self._writer.write(one.cluster, one.topic, {RECORD: "1"}, body, queue=one)
                    return
        raise ConnectionError(f"{queue} is not among the queues of the sources")

    def queues(self) -> set[str]:
        return {str(one) for state in self._states() for one in state.behind}

    async def run(self, turn: Turn) -> None:
        """Takes part until it is cancelled."""
        session = self._session = Session(
            self._store,
            self._holding,
            self._leadership,
            lease_seconds=self._settings.store_lease_seconds,
            now=_now,
            on_committed=lambda: None,
            called="instance",
        )
        tasks = [
            asyncio.create_task(session.run(), name="session with the consensus store"),
            asyncio.create_task(self._keep(session, turn), name="follow the lease"),
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, session: Session, turn: Turn) -> None:
        secret = ""
        while True:
            session.changed()  # a term that has begun is to be written
            if not secret and not session.error:
                try:
                    secret = (await self._store.read(SECRET_KEY)).get(SECRET_KEY, "")
                except (ConsensusError, asyncio.CancelledError) as error:
                    if is_cancelled():
                        raise  # else the session has opened the store again, which gives requests up
                    log.debug("the secret cannot be read yet: %s", error)
                if secret:
                    turn.secret_is(bytes.fromhex(secret))
            await turn.follow()
            await asyncio.sleep(LOOK_SECONDS if secret else RETRY_SECONDS / 3)

    async def stop(self) -> None:
        """Gives the lease back, so that another instance delivers at once."""
        if self._session is not None:
            await self._session.stop()
            self._session = None
        self._store = open_store(self._settings)


def _now() -> int:
    """The time since the boot (ms), sleep of the machine included: a lease runs out meanwhile."""
    return read_clocks()[1]
