"""A standalone with further servers in its process: a console, a delay service, a proxy."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.server.lifecycle.broker_server import BrokerServer
    from orbitmq.server.lifecycle.namesrv import NamesrvServer
    from orbitmq.server.lifecycle.process import Server
    from orbitmq.server.lifecycle.standalone import StandaloneServer


class StandaloneWith:
    """Starts the servers of `beside` last, one after another, and stops them first, the last one first."""

    def __init__(self, standalone: StandaloneServer, beside: dict[str, Server]) -> None:
        self.standalone = standalone
        self.beside = beside

    @property
    def namesrv(self) -> NamesrvServer:
        return self.standalone.namesrv

    @property
    def broker(self) -> BrokerServer:
        return self.standalone.broker

    async def start(self) -> None:
        """Raises what one of them raises; then nothing is left running."""
        async with contextlib.AsyncExitStack() as started:
            for server in (self.standalone, *self.beside.values()):
                await server.start()
                started.push_async_callback(server.stop)
            started.pop_all()

    async def stop(self) -> None:
        """Ends all of them, also where one fails to."""
        async with contextlib.AsyncExitStack() as ends:
            for server in (self.standalone, *self.beside.values()):
                ends.push_async_callback(server.stop)
