"""A broker as its controllers know it: its id in its group, its registration, its heartbeats."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.machine import GONE, NOT_MASTER, RETRY_MS, RoleMachine
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import ControllerApplyBrokerId, ControllerGetNextBrokerId
from orbitmq.server.role.controller_client import ControllerClient
from orbitmq.server.role.files import Application, IdentityFile

log = logging.getLogger(__name__)

TRIES = 10
"""Tries for an id that others are not faster to get; a group that takes no member is said in the log."""
STEP_SECONDS = 0.1
"""Pause before a registration, or an application for an id, is tried again at once."""


@dataclass(eq=False, repr=False)
class Membership:
    """Registers and beats until its task ends. `on_news()` is called where the controller is to be asked."""

    _machine: RoleMachine
    _controllers: ControllerClient
    _file: IdentityFile
    _identity: BrokerIdentity
    _settings: BrokerSettings
    _now: Callable[[], int]
    _on_news: Callable[[], None]

    def __post_init__(self) -> None:
        self._said = ""

    async def run(self) -> None:
        """Registers where that is due, and sends a heartbeat, again and again."""
        while True:
            pause = self._settings.broker_heartbeat_interval / 1000
            try:
                if not self._machine.is_registered:
                    await self._join()
                    self._on_news()
                await self.beat()
                self._said = ""
            except BrokerRefused as refused:
                self._machine.refused(refused.code)
                if refused.code in GONE:
                    pause = STEP_SECONDS
                elif refused.code in NOT_MASTER:
                    self._on_news()
                else:
                    self._say(f"the controller refuses this broker: {refused}")
            except (OrbitError, OSError) as error:
                self._say(f"no controller answers: {error}")
                pause = min(pause, RETRY_MS / 1000)
            await asyncio.sleep(pause)

    async def beat(self) -> None:
        """Sends a heartbeat. Raises NoController, NetError, BrokerRefused."""
        sent_ms = self._now()
        await self._controllers.beat(self._machine.heartbeat())
        if self._machine.beat_answered(sent_ms, self._now()):
            self._on_news()

    def _say(self, what: str) -> None:
        if what != self._said:
            log.warning("%s", what)
        self._said = what

    async def _join(self) -> None:
        """Gets an id, once and for all, and registers this address. Raises OrbitError, OSError."""
        broker_id = self._machine.broker_id or await self._apply()
        await self._controllers.call(self._machine.registration(broker_id))
        self._machine.registered()
        log.info("registered with the controller as %d of %s", broker_id, self._identity.name)

    async def _apply(self) -> int:
        identity, loop = self._identity, asyncio.get_running_loop()
        application = self._file.read_application()
        tries = 0
        while True:
            if application is None:
                asked = ControllerGetNextBrokerId(identity.cluster, identity.name)
                free = (await self._controllers.call(asked)).next_broker_id or 1
                code = f"{identity.address};{self._now()};{secrets.token_hex(8)}"
                application = Application(free, code)
                await loop.run_in_executor(None, self._file.apply, application)
            try:
                await self._controllers.call(
                    ControllerApplyBrokerId(identity.cluster, identity.name, *application)
                )
            except BrokerRefused as refused:
                tries += 1
                if refused.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID or tries == TRIES:
                    raise
                application = None  # somebody else was faster
                await asyncio.sleep(STEP_SECONDS)
                continue
            await loop.run_in_executor(None, self._file.given, application.broker_id)
            return application.broker_id
