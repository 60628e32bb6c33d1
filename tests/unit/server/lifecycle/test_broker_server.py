"""A broker as a part of a process: its start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.net.errors import ConnectFailed
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.ha import NotifyBrokerRoleChanged
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import Listener, free_ports
from tests.kit.running_standalone import TESTED


async def test_a_start_that_is_given_up_leaves_no_port_open(tmp_path: Path) -> None:
    asked: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    name_server = await asyncio.start_server(lambda _, out: asked.set_result(out), "127.0.0.1", 0)
    port = name_server.sockets[0].getsockname()[1]
    values = {
        "listenPort": free_ports(-2, 1),
        "storePathRootDir": str(tmp_path),
        "namesrvAddr": f"127.0.0.1:{port}",
    }
    server = BrokerServer(BROKER_TABLE.load([Layer("the test", {**values, **TESTED})]))
    start = asyncio.create_task(server.start())
    (await asked).transport.abort()
    name_server.close()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    pool = ConnectionPool()
    with pytest.raises(ConnectFailed):
        await pool.call(server.address, GetBrokerRuntimeInfo())
    await pool.close()


async def test_a_notice_of_a_controller_is_heard_as_soon_as_a_port_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen, pool = Listener.listen, ConnectionPool()

    async def listen_and_hear(listener: Listener, host: str, *ports: int, backlog: int) -> None:
        await listen(listener, host, *ports, backlog=backlog)
        await pool.call(f"127.0.0.1:{ports[0]}", NotifyBrokerRoleChanged("127.0.0.1:1", 1, 1, 1))

    monkeypatch.setattr(Listener, "listen", listen_and_hear)
    values = {
        "listenPort": free_ports(-2, 1),
        "storePathRootDir": str(tmp_path),
        "enableControllerMode": True,
        "controllerAddr": "127.0.0.1:1",
    }
    server = BrokerServer(BROKER_TABLE.load([Layer("the test", {**values, **TESTED})]))
    await server.start()
    await server.stop()
    await pool.close()
