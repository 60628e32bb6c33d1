"""A master asks its controller for the in-sync set that there should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.role.machine import NOT_MASTER, RoleMachine
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.server.role.controller_client import ControllerClient

log = logging.getLogger(__name__)

STEP_SECONDS = 0.1
"""Interval at which a master looks for members whose connection has ended."""


@dataclass(eq=False, repr=False)
class InSyncKeeper:
    """Runs until its task ends. `promise_changed()` is called when other members than before have to hold a
    message, `on_news()` where this broker may not be master any more.
    """

    _machine: RoleMachine
    _controllers: ControllerClient
    _now: Callable[[], int]
    _promise_changed: Callable[[], None]
    _on_news: Callable[[], None]

    async def run(self) -> None:
        """Looks at the set of a master, again and again."""
        while True:
            await asyncio.sleep(STEP_SECONDS)
            if self._machine.is_set_due(self._now()):
                try:
                    await self._alter_set()
                except (OrbitError, OSError) as error:
                    log.debug("the in-sync set cannot be changed: %s", error)

    async def _alter_set(self) -> None:
        machine = self._machine
        question = machine.set_question()
        if question is not None:
            if not machine.set_heard(await self._controllers.call(question)):
                self._on_news()
                return
            self._promise_changed()
        request = machine.set_change(self._now())
        if request is None:
            return
        self._promise_changed()
        try:
            reply = await self._controllers.call(request)
        except BrokerRefused as refused:
            machine.set_refused(request, refused.code)
            if refused.code in NOT_MASTER:
                self._on_news()
            raise
        if machine.set_changed(reply):
            self._promise_changed()
