"""The common part of targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from orbitmq.delay_service.rules.delivery import Outgoing, Result, Sent

LEASE_OVER = Sent(Result.NOT_SENT, "the lease is over: another instance delivers")


def always() -> bool:
    """An instance that stands alone may send at any time."""
    return True


class Cluster(Protocol):
    """A cluster to which messages are sent."""

    may_send: Callable[[], bool]
    """Asked right before each send."""

    async def start(self) -> None:
        """Makes it ready; the cluster need not be there."""

    async def deliver(self, topic: str, batch: Sequence[Outgoing]) -> list[Sent]:
        """Sends messages of one topic in their order, and gives the fate of each."""

    async def close(self) -> None:
        """Ends all connections."""
