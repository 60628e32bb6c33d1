"""A name server as a running part: sockets, files, notices, and what it does when something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.net.connection import Connection
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import NoPermission, RequestNotSupported, TopicNotExist
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.ha import NotifyMinBrokerIdChange
from orbitmq.protocol.requests.pull import ViewMessageById
from orbitmq.protocol.requests.route import (
    GetBrokerClusterInfo,
    GetKvConfig,
    GetRouteinfoByTopic,
    PutKvConfig,
    RegisterBroker,
    UnregisterBroker,
    UpdateNamesrvConfig,
)
from orbitmq.server.errors import CannotListen, StartError
from orbitmq.server.lifecycle.namesrv import PAUSE_PER_WRITE, NamesrvServer
from orbitmq.server.tasks import table_writer
from orbitmq.server.turn.listener import Listener
from orbitmq.store.config_files import write_text
from tests.kit.running_standalone import PatientPool


@contextlib.asynccontextmanager
async def _running(data_dir: Path, **settings) -> AsyncIterator[tuple[NamesrvServer, ConnectionPool]]:
    server = NamesrvServer(NamesrvSettings(**settings), data_dir=data_dir, port=0)
    await server.start()
    pool = PatientPool()
    try:
        yield server, pool
    finally:
        await pool.close()
        await server.stop()


def _register(broker_id: int = 0, address: str = "127.0.0.1:10911", **more) -> RegisterBroker:
    topics = {name: TopicConfig(name, 4, 4) for name in ("TopicA", "TopicB")}
    wrapper = TopicConfigAndMappingSerializeWrapper(topics, DataVersion(1, 0, 1))
    return RegisterBroker(
        "broker-a",
        address,
        "C",
        "127.0.0.1:10912",
        broker_id,
        enable_acting_master=True,
        body=RegisterBrokerBody(wrapper),
        **more,
    )


async def test_registering_asking_leaving(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, _register())
        route = (await pool.call(server.address, GetRouteinfoByTopic("TopicA"))).body
        assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
        with pytest.raises(TopicNotExist, match="for the topic: Nowhere"):
            await pool.call(server.address, GetRouteinfoByTopic("Nowhere"))
        with pytest.raises(RequestNotSupported):
            await pool.call(server.address, ViewMessageById(5))
        await pool.call(server.address, UnregisterBroker("broker-a", "127.0.0.1:10911", "C", 0))
        with pytest.raises(TopicNotExist):
            await pool.call(server.address, GetRouteinfoByTopic("TopicA"))


async def test_a_lost_connection_takes_its_broker_along(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, pool):
        brokers = PatientPool()
        await brokers.call(server.address, _register())
        assert (await pool.call(server.address, GetBrokerClusterInfo())).body.broker_addr_table
        await brokers.close()
        async with asyncio.timeout(60):
            while (await pool.call(server.address, GetBrokerClusterInfo())).body.broker_addr_table:
                pass


async def test_silence_takes_the_broker_and_its_connection(tmp_path: Path) -> None:
    lost = asyncio.Event()
    async with _running(tmp_path, scan_not_active_broker_interval=20) as (server, pool):
        brokers = ConnectionPool(on_lost=lambda address: lost.set())
        await brokers.call(server.address, _register(heartbeat_timeout_millis=50))
        await asyncio.wait_for(lost.wait(), 120)
        with pytest.raises(TopicNotExist):
            await pool.call(server.address, GetRouteinfoByTopic("TopicA"))
        await brokers.close()


async def test_values_outlive_the_process(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, PutKvConfig("ns", "k", "v"))
        assert '"k":"v"' in (tmp_path / "kvConfig.json").read_text(), "it is in the file before the answer"
    async with _running(tmp_path) as (server, pool):
        assert (await pool.call(server.address, GetKvConfig("ns", "k"))).value == "v"


async def test_changes_that_keep_coming_share_writes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may change values: each change as a write of its own would keep the disk busy for everybody."""
    writes, length, loop = [], 0.05, asyncio.get_running_loop()

    def slow_write(path: Path, text: str, mode: int) -> None:
        writes.append(text)
        time.sleep(length)
        write_text(path, text, mode)

    monkeypatch.setattr(table_writer, "write_text", slow_write)
    async with _running(tmp_path) as (server, pool):
        began = loop.time()
        calls = []
        for number in range(60):
            put = PutKvConfig("ns", f"k{number}", "v")
            calls.append(asyncio.create_task(pool.call(server.address, put)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*calls)
        took, count = loop.time() - began, len(writes)
    assert '"k59":"v"' in writes[count - 1], "each is in the file before its answer"
    assert count <= 1 + took / (length * (1 + PAUSE_PER_WRITE))


async def test_a_torn_file_and_its_backup(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, PutKvConfig("ns", "k", "1"))
        await pool.call(server.address, PutKvConfig("ns", "k", "2"))
    (tmp_path / "kvConfig.json").write_text('{"configTable":{"ns"')
    with caplog.at_level(logging.WARNING):
        async with _running(tmp_path) as (server, pool):
            assert (await pool.call(server.address, GetKvConfig("ns", "k"))).value == "1"
    assert "kvConfig.json.bak" in caplog.text


async def test_files_that_are_both_unreadable_end_the_start(tmp_path: Path) -> None:
    for name in ("kvConfig.json", "kvConfig.json.bak"):
        (tmp_path / name).write_text("{torn")
    server = NamesrvServer(NamesrvSettings(), data_dir=tmp_path, port=0)
    with pytest.raises(StartError, match=r"kvConfig\.json and its \.bak cannot be read"):
        await server.start()


async def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    server = NamesrvServer(NamesrvSettings(), data_dir=tmp_path / "file" / "data", port=0)
    with pytest.raises(StartError, match="is of no use"):
        await server.start()


async def test_options_are_changed_and_written(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, UpdateNamesrvConfig(b"needWaitForService=true"))
        assert "needWaitForService=true" in (tmp_path / "namesrv.properties").read_text()
        with pytest.raises(NoPermission):
            await pool.call(server.address, UpdateNamesrvConfig(b"kvConfigPath=/tmp/x"))


async def test_files_go_where_the_options_say(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "kv.json"
    settings = NamesrvSettings(kv_config_path=str(place), sources={"kvConfigPath": "--set"})
    server = NamesrvServer(settings, data_dir=tmp_path / "data", port=0)
    await server.start()
    pool = PatientPool()
    await pool.call(server.address, PutKvConfig("ns", "k", "v"))
    await pool.close()
    await server.stop()
    assert place.exists()
    assert not (tmp_path / "data" / "kvConfig.json").exists()


async def test_a_taken_port(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, _):
        other = NamesrvServer(NamesrvSettings(), data_dir=tmp_path, port=server.port)
        with pytest.raises(CannotListen, match=str(server.port)):
            await other.start()


async def test_garbage_costs_nobody_else_anything(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, _register())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 120) == b""
        writer.close()
        assert (await pool.call(server.address, GetRouteinfoByTopic("TopicA"))).body.queue_datas


async def test_members_are_told_of_a_new_smallest_id(tmp_path: Path) -> None:
    told: asyncio.Queue[Command] = asyncio.Queue()

    def on_requests(connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            told.put_nowait(command)

    slave = Listener(on_requests, lambda connection: None)
    await slave.listen("127.0.0.1", 0)
    slave_address = f"127.0.0.1:{slave.ports[0]}"
    async with _running(tmp_path, notify_min_broker_id_changed=True) as (server, pool):
        await pool.call(server.address, _register())
        await pool.call(server.address, _register(1, slave_address))
        await pool.call(server.address, UnregisterBroker("broker-a", "127.0.0.1:10911", "C", 0))
        command = await asyncio.wait_for(told.get(), 120)
        notice = NotifyMinBrokerIdChange.from_command(command)
        assert command.is_oneway
        assert (notice.min_broker_id, notice.min_broker_addr) == (1, slave_address)
        assert notice.offline_broker_addr == "127.0.0.1:10911"
    await slave.close()


async def test_stopping_twice_is_stopping(tmp_path: Path) -> None:
    async with _running(tmp_path) as (server, _):
        await server.stop()


async def test_the_time_after_which_idle_connections_end_changes_at_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.server.lifecycle.namesrv.IDLE_CHECK_MS", 10)
    async with _running(tmp_path) as (server, pool):
        await pool.call(server.address, UpdateNamesrvConfig(b"serverChannelMaxIdleTimeSeconds=60"))
        connection = await pool.connection(server.address)
        for held in server.turns.listener.connections.values():
            held.last_active -= 90  # it may be idle for 120 s by default
        async with asyncio.timeout(120):
            await connection.wait_closed()
