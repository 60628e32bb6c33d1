"""Every kind of message at once, on a broker of its own process that is killed again and again.

The clients and the history of what they were promised are those of `orbitmq.testing.load`; here is who ends
the broker, and what is looked at after each start.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

from orbitmq.net.errors import NetError
from orbitmq.testing import LocalBroker
from orbitmq.testing.load.clients import Clients
from orbitmq.testing.load.history import History

LEVELS_MS = {1: 1_000, 2: 2_000, 3: 3_000}
PROPERTIES: dict[str, object] = {
    "messageDelayLevel": "1s 2s 3s",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1000,
    # A producer whose broker is down most of the time answers late.
    "transactionCheckMax": 1000,
    "recallMessageEnable": "true",
    "flushDelayOffsetInterval": 2000,
}
"""Options that the broker is started with: short times, so that much comes due between two kills."""
LOOKED_UP = 10
"""Number of messages that are looked up by key after each start."""


@dataclass
class Mix:
    """A broker under load: `run` ends it again and again, and compares in the end."""

    broker: LocalBroker
    seed: int
    life_seconds: tuple[float, float] = (1.0, 6.0)
    """Time that it lives, at least and at most."""
    stops: float = 0.2
    """Share of its ends that are in order."""
    drain_seconds: float = 60.0
    """Time in which nothing may come of messages that still have to: then it is missing."""
    start_seconds: list[float] = field(default_factory=list)
    """Durations of the starts."""

    def __post_init__(self) -> None:
        self.history = History()
        self.chance = random.Random(self.seed)
        # The broker's own clock is wall time carried on by the monotonic one; ours may differ by a step.
        base = time.time() - time.monotonic()
        self.clients = Clients(
            self.broker.broker,
            self.history,
            lambda: (base + time.monotonic()) * 1000,
            self.chance,
            levels_ms=LEVELS_MS,
        )

    async def run(self, seconds: float, most_kills: int = 1 << 30) -> None:
        """The whole of it; what was broken is in the history."""
        clients, history = self.clients, self.history
        await asyncio.to_thread(self.broker.start)
        try:
            await clients.make_topics()
            clients.start()
            ends = time.monotonic() + seconds
            while time.monotonic() < ends and history.kills < most_kills:
                await asyncio.sleep(self.chance.uniform(*self.life_seconds))
                await self._end("stop" if self.chance.random() < self.stops else "kill")
                if history.broken or clients.failed() is not None:
                    break
            await clients.drain(self.drain_seconds)
            await self._end("kill")
            history.check(await clients.everything())
            error = clients.failed()
            if error is not None:
                history.break_("failed", f"a client ended with {error!r}")
        finally:
            await clients.stop()

    async def _end(self, how: str) -> None:
        """Ends the broker and starts it again; then everything seen so far has to be found by its key."""
        await asyncio.to_thread(self.broker.kill if how == "kill" else self.broker.halt)
        # Answers that the sockets still hold are read by now, or lost with the connection.
        await asyncio.sleep(0.05)
        self.history.life_ended(how, self.clients.now_ms())
        seen = sorted(self.history.first_seen_ms)
        began = time.monotonic()
        await asyncio.to_thread(self.broker.start)
        self.start_seconds.append(round(time.monotonic() - began, 3))
        for name in self.chance.sample(seen, min(LOOKED_UP, len(seen))):
            await self._look_up(name)

    async def _look_up(self, name: str) -> None:
        """Once the broker is there again, and its index has caught up."""
        deadline = time.monotonic() + self.drain_seconds
        while time.monotonic() < deadline:
            with suppress(NetError):  # the broker has only just come back
                if await self.clients.look_up(name):
                    return
            await asyncio.sleep(0.2)
        self.history.break_("lost", f"{name} is not found by its key")
