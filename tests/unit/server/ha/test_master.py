"""The port for slaves: pieces of the log, turns and limits, and peers that are no slaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from orbitmq.protocol.replication import HEADER_BYTES, encode_header, encode_report
from orbitmq.server.errors import CannotListen
from orbitmq.server.ha.master import STEP_BYTES, UNSENT_BYTES
from tests.kit.replication import ha_stream, until
from tests.kit.running_standalone import running


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n\xff\xff\xff\xff\xff\xff", encode_report(1 << 50)])
async def test_a_stranger_on_the_port_of_slaves_is_sent_away(
    tmp_path: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as here:
        reader, writer = await ha_stream(here)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert here.broker.broker.promise.links.all == []
    assert "is closed" in caplog.text


async def test_a_slave_that_acknowledges_more_than_was_sent_is_sent_away_and_nothing_is_promised_on_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": 2,
        "haFlowControlEnable": True,
        "maxHaTransferByteInSecond": 1,  # so that less was sent than is there
        "slaveTimeout": 60_000,
    }
    async with running(tmp_path, **given) as here:
        reader, writer = await ha_stream(here)
        writer.write(encode_report(0))
        await until(lambda: bool(here.broker.broker.promise.links.all))
        sending = asyncio.create_task(here.send())
        end = 0
        while not end:
            end = here.broker.store.max_physical
            await asyncio.sleep(0)
        writer.write(encode_report(end))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        await until(lambda: not here.broker.broker.promise.links.all)
        assert not sending.done()
        assert here.broker.store.max_offset("T", 0) == 0
        sending.cancel()
    assert "was sent it only up to" in caplog.text


async def test_a_slave_that_says_nothing_is_sent_away_and_one_that_does_hears_the_master_live(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, haHousekeepingInterval=400) as here:
        reader, writer = await ha_stream(here)
        assert await reader.read() == b""
        writer.close()
    async with running(tmp_path, haSendHeartbeatInterval=50) as here:
        reader, writer = await ha_stream(here)
        writer.write(encode_report(0))
        assert await reader.readexactly(2 * HEADER_BYTES) == 2 * encode_header(0, 0)
        writer.close()


async def test_pieces_are_as_large_as_asked_for_and_as_many_as_the_limit_allows(tmp_path: Path) -> None:
    given = {
        "haTransferBatchSize": 100,
        "haFlowControlEnable": True,
        "maxHaTransferByteInSecond": 150,
        "haSendHeartbeatInterval": 60_000,
    }
    async with running(tmp_path, **given) as here:
        await here.send(body=bytes(400))
        reader, writer = await ha_stream(here)
        writer.write(encode_report(0))
        data = await reader.readexactly(HEADER_BYTES + 100)
        assert data[:HEADER_BYTES] == encode_header(0, 100)
        second = await reader.readexactly(HEADER_BYTES)
        assert second[:8] == encode_header(100, 50)[:8]
        assert int.from_bytes(second[8:], "big") in (50, 100)  # 100 where a second has begun meanwhile
        writer.close()


async def test_a_slave_far_behind_leaves_turns_to_others(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        for _ in range(3):
            await here.send(body=bytes(1 << 20))
        reader, writer = await ha_stream(here)
        writer.write(encode_report(0))
        await reader.readexactly(1)
        (link,) = here.broker.broker.promise.links.all
        (connection,) = (
            here.broker.replication.server.connections if here.broker.replication.server is not None else ()
        )
        before = link.next_offset = 0
        link.sent_bytes = 0
        connection.resume_writing()  # it may have more to leave by now than its peer has taken
        assert before < link.sent_bytes < STEP_BYTES + here.broker.settings.ha_transfer_batch_size
        await reader.readexactly(3 << 20)
        writer.close()


async def test_a_taken_port_for_slaves_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match="haListenPort"):
            async with running(tmp_path, haListenPort=port):
                pass


async def test_a_slave_that_does_not_read_costs_its_master_little_memory(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        for _ in range(12):
            await here.send(body=bytes(1 << 20))
        _, writer = await ha_stream(here)
        writer.transport.pause_reading()
        writer.write(encode_report(0))
        server = here.broker.replication.server
        assert server is not None
        await until(lambda: server.connections and server.connections[0]._paused)
        (connection,) = server.connections
        assert connection._transport.get_write_buffer_size() < UNSENT_BYTES + 2 * STEP_BYTES
        sent = connection.link.sent_bytes
        await here.send()  # others are served meanwhile, and the log grows
        assert connection.link.sent_bytes == sent
        writer.close()
