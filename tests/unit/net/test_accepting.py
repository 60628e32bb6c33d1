"""The end of a listening server, while clients connect."""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine

import pytest

from orbitmq.net.accepting import stop_accepting


class Peer(asyncio.Protocol):
    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_connects_while_a_server_stops_is_not_left_waiting(turns: int) -> None:
    """However many turns of the loop lie in between: the socket is accepted in one and has its transport
    after some more.
    """
    made: list[asyncio.BaseTransport] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Peer(made), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    clients = [socket.create_connection(address) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await stop_accepting(server)
    for transport in made:
        transport.close()
    for client in clients:
        client.setblocking(False)
        async with asyncio.timeout(120):
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(client, 1) == b""
        client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@pytest.mark.parametrize("turns", range(6))
async def test_whatever_serves_a_connection_has_begun_once_its_server_has_stopped(turns: int) -> None:
    accepted: list[asyncio.StreamWriter] = []
    begun: list[asyncio.StreamWriter] = []

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Coroutine[None, None, None]:
        accepted.append(writer)
        return serve(writer)

    async def serve(writer: asyncio.StreamWriter) -> None:
        begun.append(writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    client = socket.create_connection(server.sockets[0].getsockname())
    for _ in range(turns):
        await asyncio.sleep(0)
    await stop_accepting(server)
    assert begun == accepted
    await asyncio.gather(*(writer.wait_closed() for writer in begun))
    client.close()
