"""A broker whose role a controller decides: its talk with the controllers, and the steps that follow from it.

The rules are `orbitmq.broker.role.machine`'s. A notice of the controller only says that there is something to
ask: the role follows from its answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from ssl import SSLContext

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.machine import RETRY_MS, Elected, RoleMachine
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.address import parse_addresses
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import ControllerGetReplicaInfo
from orbitmq.server.role.controller_client import ControllerClient
from orbitmq.server.role.files import FollowedFile, IdentityFile
from orbitmq.server.role.in_sync import InSyncKeeper
from orbitmq.server.role.membership import Membership
from orbitmq.server.role.step_runner import RoleActions, StepRunner

log = logging.getLogger(__name__)

STEP_SECONDS = 0.1
"""Interval at which a master looks at its lease."""
LEAST_PAUSE_SECONDS = 0.02
MAX_REQUEST_MS = 3_000


class ControllerMode:
    """Runs until its task ends. `now()` is the server's clock, in ms."""

    def __init__(
        self,
        machine: RoleMachine,
        identity: BrokerIdentity,
        settings: BrokerSettings,
        identity_file: IdentityFile,
        followed_file: FollowedFile,
        now: Callable[[], int],
        actions: RoleActions,
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        self.machine = machine
        self._name = identity.name
        self._settings = settings
        self._now = now
        self._followed_file = followed_file
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(settings))
        timeout_ms = min(MAX_REQUEST_MS, settings.controller_heart_beat_timeout_mills / 3)
        self._controllers = ControllerClient(
            parse_addresses(settings.controller_addr), self._pool, timeout_ms
        )
        self._news = asyncio.Event()
        self._membership = Membership(
            machine, self._controllers, identity_file, identity, settings, now, self._news.set
        )
        self._set_keeper = InSyncKeeper(
            machine, self._controllers, now, actions.promise_changed, self._news.set
        )
        self._steps = asyncio.Lock()
        """One step is carried out at a time."""
        self._runner = StepRunner(
            machine,
            actions,
            followed_file if settings.enable_blind_master else None,
            self._pool,
            now,
            self._membership.beat,
            self._wake_later,
        )

    @property
    def may_answer(self) -> bool:
        """See `RoleMachine.may_answer`."""
        return self.machine.may_answer(self._now())

    def wake(self) -> None:
        """Has the controller asked soon: there was a notice, or a member's connection has ended."""
        self._news.set()

    async def run(self) -> None:
        """Registers, beats, and takes the roles that the controller gives."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._membership.run(), name="heartbeats to the controller")
                tasks.create_task(self._follow_forever(), name="the controller's decisions")
                tasks.create_task(self._watch_lease(), name="lease")
                tasks.create_task(self._set_keeper.run(), name="in-sync set")
        finally:
            await self._pool.close()

    # The lease.

    async def _watch_lease(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            async with self._steps:
                step = self.machine.lease_step(self._now())
                if step is not None:
                    await self._runner.run(step)

    # The role.

    async def _follow_forever(self) -> None:
        self.machine.remembered = self._followed_file.read()
        while True:
            try:
                if self.machine.is_registered:
                    await self._follow()
                else:
                    await self._follow_as_before()
            except (OrbitError, OSError) as error:
                if isinstance(error, BrokerRefused):
                    self.machine.refused(error.code)
                else:
                    await self._follow_as_before()
                log.debug("the controller does not name the master: %s", error)
                self._wake_later()
            # Notices of strangers, however many, cost the controller no more than this.
            await asyncio.sleep(LEAST_PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.sync_controller_metadata_period / 1000):
                    await self._news.wait()
            self._news.clear()

    def _wake_later(self, ms: float = RETRY_MS) -> None:
        asyncio.get_running_loop().call_later(ms / 1000, self._news.set)

    async def _follow(self) -> None:
        """Asks who is master, has one elected where there is none, and takes the role that follows."""
        elected = Elected.of(await self._controllers.call(ControllerGetReplicaInfo(self._name)))
        if elected is None:
            self.machine.contradicted()
            # A controller on a new store learns of the epochs that there were from heartbeats.
            await self._membership.beat()
            elected = Elected.of(await self._controllers.call(self.machine.election(self._now())))
        if elected is None:
            self._wake_later()
            return
        async with self._steps:
            self.machine.heard(elected)
            await self._runner.run_all()

    async def _follow_as_before(self) -> None:
        """Follows the master of before where no controller has named another one."""
        if not self._settings.enable_blind_master:
            return
        async with self._steps:
            self.machine.nobody_answers()
            with contextlib.suppress(OrbitError, OSError):
                await self._runner.run_all()

    async def cut_to(self, physical_offset: int) -> None:
        """Cuts what the master's log does not have, and follows it again."""
        async with self._steps:
            self.machine.diverged(physical_offset)
            await self._runner.run_all()
        self._news.set()
