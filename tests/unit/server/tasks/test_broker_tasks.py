"""Tasks of a running broker for transactions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from orbitmq.client import TransactionProducer, TransactionState
from orbitmq.client.core.message import Message, ReceivedMessage
from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.requests.client import Heartbeat
from tests.kit.running_standalone import Running, running

ROUNDS: dict[str, object] = {
    "transactionCheckInterval": 1,
    "transactionTimeOut": 0,
    "transactionCheckMax": 1_000_000,
}
"""A round of questions every second; no half message is given up, however long the test takes."""


async def send_half(server: Running, number: int = 1) -> None:
    properties = f"UNIQ_KEY\x01ID{number}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
    await server.send(properties=properties, born_timestamp=time.time_ns() // 1_000_000)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it looks at belongs to the broker
            await asyncio.sleep(0.01)


def text_of(file: Path) -> str:
    """The text of a table's file, which is away for a moment while the next one takes its place."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text()
    return ""


async def test_the_counts_of_open_halves_are_saved(tmp_path: Path) -> None:
    file = tmp_path / "config" / "transactionMetrics"
    async with running(tmp_path, transactionMetricFlushInterval=20) as server:
        await send_half(server)
        await until(lambda: '"T":{"count":1' in text_of(file))


async def test_producers_are_asked_without_being_flooded(tmp_path: Path) -> None:
    async with running(tmp_path, **ROUNDS) as server:
        for number in range(300):
            await send_half(server, number)
        assert _open(server) == 300
        asked: set[str] = set()

        async def check(message: ReceivedMessage) -> TransactionState:
            asked.add(message.message_id)
            return TransactionState.ROLLBACK

        namesrv = server.server.namesrv.address
        async with TransactionProducer("PG", namesrv, check=check) as producer:
            await producer.queues("T")  # so that it knows the broker, and the broker it
            await producer._running()[0].introduce([server.address])
            await until(lambda: _open(server) == 0)
        assert len(asked) == 300


async def test_a_producer_that_takes_nothing_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path, **ROUNDS) as server:
        broker = server.broker
        await send_half(server)
        connection = await server.pool.connection(server.address)
        group = HeartbeatData(client_id="c", producer_data_set=[ProducerData("PG")])
        await connection.call(Heartbeat(body=group))
        (peer,) = broker.turns.listener.connections.values()
        peer.pause_writing()
        asked = dict(broker.broker.transactions.figures.asked)
        for _ in range(20):
            server.run_task("ask about half messages", server.now() + 1000)
        assert broker.broker.transactions.figures.asked == asked
        peer.resume_writing()
        await until(lambda: broker.broker.transactions.figures.asked["PG"] > asked.get("PG", 0))


def _open(server: Running) -> int:
    return server.broker.broker.transactions.figures.open_count


async def test_a_stop_in_the_middle_of_a_round_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, **ROUNDS) as server:
        for number in range(450):
            await send_half(server, number)
        await until(lambda: server.broker.broker.transactions.end > 450)
    async with running(tmp_path) as server:
        assert _open(server) == 450
        assert server.broker.broker.transactions.figures.open == {("T", "PG"): 450}


async def test_messages_are_sent_while_a_round_is_under_way(tmp_path: Path) -> None:
    async with running(tmp_path, **ROUNDS) as server:
        for number in range(450):
            await send_half(server, number)
        namesrv = server.server.namesrv.address

        async def check(message: ReceivedMessage) -> TransactionState:
            return TransactionState.UNKNOWN

        async with TransactionProducer("PG", namesrv, check=check) as producer:
            done = await producer.send_in_transaction(
                Message("T", b"x"), lambda sent: TransactionState.COMMIT
            )
            assert done.is_confirmed
