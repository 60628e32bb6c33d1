"""Questions of pages: a broker that did not answer the last look is left out, so no page waits for it."""

from __future__ import annotations

from typing import TypeVar

from orbitmq.admin import Admin, BrokerAt, NoBroker
from orbitmq.net.errors import NetError
from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound=Reply)


class SilentBroker(NetError):
    """A broker that is not asked now."""

    def __init__(self, address: str) -> None:
        super().__init__(f"broker {address} did not answer the last look at the cluster")


class Reader(Admin):
    """An `Admin` for what is only read. Changes need a plain one: they must reach every broker or fail."""

    silent: frozenset[str] = frozenset()
    """Addresses of brokers that did not answer; the sampler sets them."""

    async def call(self, address: str, request: Request[ReplyT]) -> ReplyT:
        """As of `Admin`. Raises SilentBroker without asking."""
        if address in self.silent:
            raise SilentBroker(address)
        return await super().call(address, request)

    async def brokers(self, cluster: str | None = None, broker: str | None = None) -> list[BrokerAt]:
        """As of `Admin`, without silent ones. Raises NoBroker where all are silent."""
        return self._answering(await super().brokers(cluster, broker))

    async def brokers_of(self, topic: str) -> list[BrokerAt]:
        """As of `Admin`, without silent ones. Raises NoBroker where all are silent."""
        return self._answering(await super().brokers_of(topic))

    def _answering(self, found: list[BrokerAt]) -> list[BrokerAt]:
        answering = [one for one in found if one.address not in self.silent]
        if not answering:
            names = ", ".join(one.name for one in found)
            raise NoBroker(f"none of these brokers answers: {names}")
        return answering
