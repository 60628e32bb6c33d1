"""The steps of the role's machine, carried out one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.broker.role.machine import (
    RETRY_MS,
    AskLater,
    Beat,
    ChangeRole,
    Cut,
    FindLog,
    GoBlind,
    RoleMachine,
    See,
    Step,
)
from orbitmq.broker.role.role import RoleChange
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.ha import ExchangeBrokerHaInfo
from orbitmq.server.role.files import FollowedFile

log = logging.getLogger(__name__)

MASTER_TIMEOUT_MS = 1_000
"""Time that a new slave waits for its master's answer."""


class RoleActions(NamedTuple):
    """Actions of a server for its role."""

    change_role: Callable[[RoleChange], Awaitable[None]]
    truncate: Callable[[int], Awaitable[int]]
    go_blind: Callable[[], None]
    see: Callable[[], None]
    promise_changed: Callable[[], None]
    """Called when other members than before have to hold a message."""


@dataclass(eq=False, repr=False)
class StepRunner:
    """Carries out steps. `beat()` sends a heartbeat, `ask_later(ms)` has the controller asked again.

    `followed_file` is None where enableBlindMaster is off.
    """

    _machine: RoleMachine
    _actions: RoleActions
    _followed_file: FollowedFile | None
    _pool: ConnectionPool
    _now: Callable[[], int]
    _beat: Callable[[], Awaitable[None]]
    _ask_later: Callable[[float], None]

    async def run_all(self) -> None:
        """Carries out steps until there is none. Raises OrbitError, OSError where no controller answers."""
        while (step := self._machine.next_step(self._now())) is not None:
            if not await self.run(step):
                return

    async def run(self, step: Step) -> bool:
        """True if a step has succeeded; else it is tried again. Raises what `run_all` does."""
        try:
            await self._do(step)
        except (OrbitError, OSError) as error:
            self._machine.failed()
            if isinstance(step, Beat):
                raise
            if isinstance(step, FindLog):
                log.debug("the master %s does not answer yet: %s", step.master_address, error)
            else:
                what = "log could not be cut" if isinstance(step, Cut) else "role could not be changed"
                log.error("the %s: %s; it is tried again", what, error)
            self._ask_later(RETRY_MS)
            return False
        return True

    async def _do(self, step: Step) -> None:
        machine, actions = self._machine, self._actions
        match step:
            case ChangeRole(change):
                if self._followed_file is not None:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(None, self._followed_file.note, change)
                await actions.change_role(change)
                machine.role_taken(change)
            case Cut(physical_offset):
                await actions.truncate(physical_offset)
                machine.log_cut()
            case Beat(tells):
                # It may be refused, for the epoch of this log is over; the controller has heard it even so.
                with contextlib.suppress(*(OrbitError, OSError) if tells else ()):
                    await self._beat()
                if tells:
                    machine.told()
            case FindLog(address):
                reply = await self._pool.call(address, ExchangeBrokerHaInfo(), MASTER_TIMEOUT_MS)
                machine.log_found(reply.master_ha_address or "")
            case AskLater(ms):
                self._ask_later(ms)
            case GoBlind():
                actions.go_blind()
                machine.went_blind()
            case See():
                actions.see()
