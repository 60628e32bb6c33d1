"""Workers whose servers are away when they start: they wait, and say so in the log and to probes."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import urllib.error
import urllib.request

import pytest

from orbitmq import sync
from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.handlers import Handler
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.client.running import Waiting, health_served, serve, start_when_there
from orbitmq.net.errors import NoNameServer
from orbitmq.net.server_kinds import BROKER, NAME_SERVER, WrongServer
from orbitmq.server.turn.listener import free_ports
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


def reader(port: int, handler: Handler = print) -> PushConsumer:
    consumer = PushConsumer("billing", f"127.0.0.1:{port}", consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", handler)
    return consumer


def probed(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_a_worker_waits_for_its_servers_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    port, health = free_ports(), free_ports()
    seen, broker = Seen(), FakeBroker()
    consumer = reader(port, seen)
    away: Waiting = {}
    with caplog.at_level(logging.INFO, "orbitmq.client.running"):
        async with health_served([consumer], f"127.0.0.1:{health}", away):
            starting = asyncio.create_task(start_when_there(consumer, 60_000, away, asyncio.Event()))
            await until(lambda: away)
            status, text = await asyncio.to_thread(probed, health)
            assert status == 503
            name = "PushConsumer of group billing is not healthy: it has not started yet"
            assert text.startswith(f"{name}: no name server answers: ")
            await broker.start(port)
            queues = Queues(broker, "T")
            queues.put(b"0")
            await starting
            await seen.count(1)
            assert await asyncio.to_thread(probed, health) == (200, "ok\n")
            await consumer.close()
            _, text = await asyncio.to_thread(probed, health)
            assert text == f"{name}, or is closed\n"
    await broker.stop()
    waits, started = [row.getMessage() for row in caplog.records if row.name == "orbitmq.client.running"]
    assert waits.startswith("PushConsumer of group billing waits up to 60 s for its servers: no name server")
    assert started.startswith("PushConsumer of group billing has started after ")


async def test_the_wait_is_bounded_and_may_be_none() -> None:
    for timeout_ms in (0, 300):
        began = time.monotonic()
        with pytest.raises(NoNameServer):
            await serve(reader(free_ports()), start_timeout_ms=timeout_ms)
        assert time.monotonic() - began >= timeout_ms / 1000
    with pytest.raises(InvalidArgument, match="start_timeout_ms"):
        await serve(reader(1), start_timeout_ms=-1)


async def test_a_signal_ends_the_wait() -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.1, signal.raise_signal, signal.SIGTERM)
    async with asyncio.timeout(60):
        assert await serve(reader(free_ports()), start_timeout_ms=3_600_000) == 0


def test_a_signal_ends_the_wait_of_a_blocking_worker() -> None:
    consumer = sync.PushConsumer("billing", f"127.0.0.1:{free_ports()}")
    consumer.subscribe("T", "*", print)

    def end(*_: object) -> None:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # the worker has begun
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        assert sync.run(consumer, start_timeout_ms=3_600_000) == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


async def test_another_kind_of_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = NoNameServer([WrongServer("127.0.0.1:10911", BROKER, NAME_SERVER)])

    async def start(_: PushConsumer) -> PushConsumer:
        raise wrong

    monkeypatch.setattr(PushConsumer, "start", start)
    with pytest.raises(NoNameServer, match="is the port of a broker"):
        await start_when_there(reader(1), 3_600_000, {}, asyncio.Event())
