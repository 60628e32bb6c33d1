"""A broker that has ended listens no more."""

from __future__ import annotations

import asyncio
import socket

from orbitmq.server.controller.listening import listens


async def test_a_port_that_is_listened_on_counts_even_if_nothing_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert await listens(f"127.0.0.1:{listener.getsockname()[1]}")


async def test_nobody_listens_where_connections_are_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not await listens(f"127.0.0.1:{bound.getsockname()[1]}")


async def test_nobody_listens_at_what_is_no_address() -> None:
    assert not await listens("nowhere")


async def test_a_look_leaves_no_connection_behind() -> None:
    ended = asyncio.Event()

    class Seen(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    server = await asyncio.get_running_loop().create_server(Seen, "127.0.0.1", 0)
    async with server:
        assert await listens(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with asyncio.timeout(30):
            await ended.wait()
