"""A broker that has ended listens no more."""

from __future__ import annotations

import asyncio
import socket

import pytest

from orbitmq.server.controller.listening import is_at, listens


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
        async with asyncio.timeout(120):
            await ended.wait()


@pytest.mark.parametrize(
    ("address", "peer", "is_there"),
    [
        ("10.0.0.1:10911", "10.0.0.1:40000", True),
        ("10.0.0.2:10911", "10.0.0.1:40000", False),
        ("10.0.0.1:10911", "[::ffff:10.0.0.1]:40000", True),
        ("[fe80::1]:10911", "[fe80::1]:40000", True),
        ("10.0.0.2:10911", "127.0.0.1:40000", True),
        ("127.0.0.1:22", "10.0.0.1:40000", False),
        ("localhost:22", "10.0.0.1:40000", False),
        ("no-such-host.invalid:1", "10.0.0.1:40000", False),
        ("nowhere", "10.0.0.1:40000", False),
    ],
)
async def test_an_address_is_connected_to_on_the_host_of_its_broker_alone(
    address: str, peer: str, is_there: bool
) -> None:
    """A peer on this machine could connect anywhere itself."""
    assert await is_at(address, peer) is is_there
