"""Clients of one broker group in a cluster: they learn from name servers where its master is.

What is promised to them depends on the cluster's mode, so their history knows which losses it allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.testing.load.clients import Clients
from orbitmq.testing.load.history import History, Promise

ROUTE_SECONDS = (0.1, 0.6)
READS_AT_SLAVES = 0.15
"""The share of pulls that ask a slave."""


class ClusterHistory(History):
    """Tells `on_acknowledged(promise)` of each acknowledgement; by `spread_ms()` clocks differ.

    Brokers of a group end apart from each other, and each may take what it alone had: older promises are at
    risk in every cut.
    """

    def __init__(self, on_acknowledged: Callable[[Promise], None], spread_ms: Callable[[], float]) -> None:
        super().__init__()
        self._on_acknowledged = on_acknowledged
        self._spread_ms = spread_ms

    def _clocks_ms(self) -> float:
        return super()._clocks_ms() + self._spread_ms()

    def acknowledge(self, promise: Promise, now_ms: float, place: int = -1) -> None:
        super().acknowledge(promise, now_ms, place)
        self._on_acknowledged(promise)

    def life_ended(self, kind: str, now_ms: float, durable: int | None = None) -> None:
        since = list(self._since_cut)
        super().life_ended(kind, now_ms, durable)
        self._since_cut = since


class ClusterClients(Clients):
    """`is_master(address)` says who is master by the last election, which nobody in the cluster knows at
    once: group offsets and pops of a broker that was replaced are no promise of the cluster. Its messages
    are, where it `may_show(address)` them.
    """

    def __init__(
        self,
        *arguments: Any,
        name_servers: Sequence[str],
        is_master: Callable[[str], bool],
        may_show: Callable[[str], bool],
        reads_at_slaves: bool,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._name_servers = list(name_servers)
        self._is_master = is_master
        self._may_show_them = may_show
        self._reads_at_slaves = reads_at_slaves
        self._slaves: list[str] = []
        self._following: asyncio.Task[None] | None = None

    async def follow_route(self) -> None:
        """Asks one name server after another, again and again."""
        while True:
            with suppress(OrbitError):
                await self._look_up_route(self.chance.choice(self._name_servers))
            await asyncio.sleep(self.chance.uniform(*ROUTE_SECONDS))

    async def _look_up_route(self, name_server: str) -> None:
        body = (await self.pool.call(name_server, GetRouteinfoByTopic(self.topics["plain"], True), 1000)).body
        for data in body.broker_datas:
            if data.broker_name == self.broker_name and data.broker_addrs:
                self.address = data.broker_addrs.get(0, self.address)
                self._slaves = [one for key, one in sorted(data.broker_addrs.items()) if key != 0]

    def start(self) -> None:
        super().start()
        self._following = asyncio.ensure_future(self.follow_route())

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await super().stop()

    def _reading_address(self) -> str:
        if (
            self._reads_at_slaves
            and self._slaves
            and not self.finished.is_set()
            and self.chance.random() < READS_AT_SLAVES
        ):
            return self.chance.choice(self._slaves)
        return self.address

    def _may_show(self, address: str) -> bool:
        return self._may_show_them(address)

    def _counts_from(self, address: str) -> bool:
        return self._is_master(address)
