"""The guard against two masters: no other broker takes a master's place before that is gone for certain."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from orbitmq.admin.admin import Admin
from orbitmq.net.errors import NetError
from orbitmq.net.probing import Reach, probe
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo

LOOK_SECONDS = 0.5
"""Pause between two looks."""
UNREACHED_LOOKS = 5
"""Looks that do not reach a master before the operator is asked."""

Confirm = Callable[[str], Awaitable[bool]]
"""Asks the operator a question; True for yes."""


class Stopped(OrbitError):
    """A change of a group's master is given up; the text says why, and what to do."""


class OldMaster:
    """Looks for a master at `host:port`. Without `confirm` nothing can be confirmed."""

    def __init__(self, admin: Admin, confirm: Confirm | None = None) -> None:
        self._admin = admin
        self._confirm = confirm
        self._unreached: dict[str, int] = {}
        self._confirmed: set[str] = set()

    async def look(self, address: str, deadline: float, *, asks: bool = True) -> Reach:
        """REFUSED if the master is gone: every connection is refused, or the operator knows that its process
        is stopped, asked after several looks or at the deadline (monotonic, s). UNKNOWN: look again later.
        Raises Stopped if it is not confirmed. A port for slaves is no port to ask.
        """
        found = await (self._reach(address) if asks else probe(address))
        if found is Reach.UNKNOWN and await self._is_confirmed(address, deadline):
            return Reach.REFUSED
        return found

    async def is_gone(self, address: str, *, asks: bool = True) -> bool:
        """Looks until there is an answer; False if something listens. Raises Stopped as `look` does."""
        while True:
            found = await self.look(address, math.inf, asks=asks)
            if found is not Reach.UNKNOWN:
                return found is Reach.REFUSED
            await asyncio.sleep(LOOK_SECONDS)

    async def _reach(self, address: str) -> Reach:
        """REFUSED if nothing listens there; a broker that answers nothing may still run."""
        try:
            await self._admin.call(address, GetBrokerRuntimeInfo())
        except (NetError, BrokerRefused):
            return await probe(address)
        return Reach.LISTENS

    async def _is_confirmed(self, address: str, deadline: float) -> bool:
        if address in self._confirmed:
            return True
        self._unreached[address] = looks = self._unreached.get(address, 0) + 1
        if looks < UNREACHED_LOOKS and time.monotonic() < deadline:
            return False
        await self.confirm_stopped(
            address,
            f"{address} cannot be reached, and does not refuse connections either: it may still run and take "
            "messages",
        )
        return True

    async def confirm_stopped(self, address: str, doubt: str) -> None:
        """Asks the operator about a master of which nothing can be found out. Raises Stopped unless the
        answer is that it is stopped.
        """
        if self._confirm is not None and await self._confirm(f"{doubt}. Is its process stopped for certain?"):
            self._confirmed.add(address)
            return
        raise Stopped(
            f"{doubt}, and two masters would take messages. See that it is stopped, and run this again, with "
            "--master-stopped if its host is gone"
        )
