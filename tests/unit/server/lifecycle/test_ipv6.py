"""Servers on IPv6: listening, the address in routes and message ids, clients, and queries by offset id."""

from pathlib import Path

import pytest

from orbitmq import Message, Producer, PullConsumer
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.requests.pull import ViewMessageById
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.server.lifecycle.standalone import StandaloneServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import SMALL_SEGMENTS

pytestmark = pytest.mark.needs("ipv6")


def server(folder: Path, listen: str, **more: object) -> tuple[StandaloneServer, int]:
    port = free_ports(-2, 1, 2, host=listen)
    values = {
        "storePathRootDir": str(folder),
        "listenPort": port,
        "bindAddress": listen,
        **SMALL_SEGMENTS,
        **more,
    }
    broker = BROKER_TABLE.load([Layer("test", values)])
    namesrv = NAMESRV_TABLE.load([Layer("test", {"listenPort": port + 2, "bindAddress": listen})])
    return StandaloneServer(broker, namesrv), port


async def test_everything_over_ipv6(tmp_path: Path) -> None:
    standalone, port = server(tmp_path, "::1", healthPort=free_ports(host="::1"))
    await standalone.start()
    pool = ConnectionPool()
    try:
        namesrv = f"[::1]:{port + 2}"
        async with Producer("p", namesrv=namesrv) as producer:
            sent = await producer.send(Message("six", b"hello"))
        route = (await pool.call(namesrv, GetRouteinfoByTopic("six"))).body
        assert [broker.broker_addrs for broker in route.broker_datas] == [{0: f"[::1]:{port}"}]
        assert len(sent.offset_message_id) == 56
        stored = parse_offset_message_id(sent.offset_message_id)
        assert stored.address == ("::1", port)
        found = await pool.call(f"[::1]:{port}", ViewMessageById(offset=stored.physical_offset))
        assert b"hello" in bytes(found.body)
        async with PullConsumer("g", namesrv=namesrv) as consumer:
            [queue] = [
                queue for queue in await consumer.queues("six") if queue.queue_id == sent.queue.queue_id
            ]
            pulled = await consumer.pull(queue, 0)
        assert [message.body for message in pulled] == [b"hello"]
        assert pulled[0].store_host == f"[::1]:{port}"
        assert pulled[0].born_host.startswith("[::1]:")
    finally:
        await pool.close()
        await standalone.stop()


async def test_all_addresses_means_both_kinds(tmp_path: Path) -> None:
    standalone, port = server(tmp_path, "::", brokerIP1="::1")
    await standalone.start()
    pool = ConnectionPool()
    try:
        for host in ("127.0.0.1", "[::1]"):
            async with Producer("p", namesrv=f"{host}:{port + 2}") as producer:
                await producer.send(Message("both", b"x"))
    finally:
        await pool.close()
        await standalone.stop()
