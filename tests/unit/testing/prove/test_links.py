"""Relays between parties of a cluster: cut, one way only, slow, lossy, breaking off, mended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator

import pytest

from orbitmq.net.accepting import stop_accepting
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.prove.links import ADVERTISED, CLIENTS, Links

pytestmark = pytest.mark.timeout(600)


class Echo:
    """A node that answers each line in capitals."""

    def __init__(self, links: Links, port: int) -> None:
        self.links, self.port = links, port
        self.writers: list[asyncio.StreamWriter] = []
        """The connections to the node, at both of their ends."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(ADVERTISED, self.port)
        self.writers.append(writer)
        return reader, writer

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionResetError):
            while line := await reader.readline():
                writer.write(line.upper())
        writer.close()


@contextlib.asynccontextmanager
async def echo(name_of_this_process: str = "") -> AsyncIterator[Echo]:
    links = Links(lambda: {name_of_this_process: os.getpid()} if name_of_this_process else {})
    port = free_ports()
    node = Echo(links, port)
    server = await asyncio.start_server(node.answer, "127.0.0.1", port)
    await links.open("echo", [port])
    try:
        yield node
    finally:
        await links.close()
        await stop_accepting(server)
        for writer in node.writers:
            writer.transport.abort()


async def says_nothing(reader: asyncio.StreamReader) -> bool:
    """True if nothing comes for a while. Bytes that come are not lost for the next reader."""
    task = asyncio.ensure_future(reader.read(1))
    done, _ = await asyncio.wait({task}, timeout=0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return not done


async def test_bytes_wait_in_a_cut_link_and_go_on_when_it_is_mended() -> None:
    async with echo() as node:
        reader, writer = await node.connect()
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        node.links.cut((CLIENTS, "echo"))
        writer.write(b"two\n")
        assert await says_nothing(reader)
        late, _ = await node.connect()
        assert await says_nothing(late)
        node.links.mend()
        assert await reader.readline() == b"TWO\n"


async def test_a_link_that_carries_one_way_only_keeps_the_answer_back() -> None:
    async with echo() as node:
        reader, writer = await node.connect()
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        node.links.cut(("echo", CLIENTS))
        writer.write(b"two\n")
        assert await says_nothing(reader)
        node.links.mend()
        assert await reader.readline() == b"TWO\n"


async def test_a_connection_belongs_to_the_node_whose_process_opened_it() -> None:
    async with echo("me") as node:
        node.links.cut((CLIENTS, "echo"))
        reader, writer = await node.connect()
        writer.write(b"mine\n")
        assert await reader.readline() == b"MINE\n"
        node.links.cut(("me", "echo"))
        writer.write(b"more\n")
        assert await says_nothing(reader)


async def test_a_connection_is_told_from_those_that_share_its_local_port() -> None:
    loop = asyncio.get_running_loop()
    async with echo("me") as node:
        node.links.cut((CLIENTS, "echo"))
        with socket.create_server(("", 0)) as elsewhere, contextlib.ExitStack() as closing:
            ours = closing.enter_context(reusing(("127.0.0.1", 0)))
            others = [closing.enter_context(reusing(ours.getsockname())) for _ in range(20)]
            for number, other in enumerate(others, 10):
                other.connect((f"127.0.0.{number}", elsewhere.getsockname()[1]))
            closing.enter_context(given_away(others))
            ours.setblocking(False)
            await loop.sock_connect(ours, (ADVERTISED, node.port))
            await loop.sock_sendall(ours, b"mine\n")
            assert await loop.sock_recv(ours, 5) == b"MINE\n"


def reusing(address: tuple[str, int]) -> socket.socket:
    """A socket whose local address others share that connect elsewhere."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(address)
    return made


def given_away(sockets: list[socket.socket]) -> subprocess.Popen[bytes]:
    """A process that has these sockets, which are no more ours. It ends with its input."""
    numbers = [one.fileno() for one in sockets]
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=numbers)
    for one in sockets:
        one.close()
    return process


async def test_a_slow_link_takes_its_time_for_each_piece() -> None:
    async with echo() as node:
        reader, writer = await node.connect()
        node.links.slow_down(0.2, (CLIENTS, "echo"), ("echo", CLIENTS))
        began = asyncio.get_running_loop().time()
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        assert asyncio.get_running_loop().time() - began >= 0.4


async def test_packets_that_a_lossy_link_loses_are_sent_again() -> None:
    async with echo() as node:
        reader, writer = await node.connect()
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        node.links.lose(1.0, (CLIENTS, "echo"))
        writer.write(b"two\n")
        assert await says_nothing(reader)
        node.links.mend()
        assert await reader.readline() == b"TWO\n"


async def test_a_connection_that_comes_later_loses_packets_too() -> None:
    async with echo() as node:
        node.links.lose(1.0, ("echo", CLIENTS))
        reader, writer = await node.connect()
        writer.write(b"one\n")
        assert await says_nothing(reader)
        node.links.mend()
        assert await reader.readline() == b"ONE\n"


async def test_a_piece_breaks_off_and_the_next_connection_is_whole() -> None:
    async with echo() as node:
        reader, writer = await node.connect()
        node.links.break_connections(1.0, ("echo", CLIENTS))
        writer.write(b"one\n")
        with contextlib.suppress(ConnectionResetError):
            assert len(await reader.read()) < len(b"ONE\n")
        node.links.mend()
        reader, writer = await node.connect()
        writer.write(b"two\n")
        assert await reader.readline() == b"TWO\n"


async def test_a_node_that_is_down_refuses_and_one_that_is_back_does_not() -> None:
    async with echo() as node:
        await node.links.close_node("echo")
        with pytest.raises(ConnectionRefusedError):
            await node.connect()
        await node.links.open("echo", [node.port])
        reader, writer = await node.connect()
        writer.write(b"back\n")
        assert await reader.readline() == b"BACK\n"
