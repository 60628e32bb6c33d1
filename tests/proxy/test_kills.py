"""Kills of a proxy under load: what was acknowledged is there, and only what was in flight comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import grpc
import pytest

from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.client.naming import until
from tests.proxy.bare_client import BareClient
from tests.proxy.test_service import topic

SENDERS = 4
INVISIBLE_MS = 3000


class Killed:
    """`orbitmq proxy` as a process on one port, life after life."""

    def __init__(self, broker: LocalBroker, folder: Path) -> None:
        self.port = free_ports()
        self._ready = folder / "ready"
        self._command = [
            *(sys.executable, "-m", "orbitmq", "proxy", f"--namesrv={broker.namesrv}", f"--port={self.port}"),
            *(
                "--remoting-port=0",
                f"--ready-file={self._ready}",
                "--set",
                "minInvisibleTimeMillsForRecv=1000",
            ),
            *("--set", "grpcClientConsumerMinLongPollingTimeoutMillis=100", "--log-level=error"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command)  # noqa: ASYNC220 - it takes no time
        await until(self._ready.exists)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.nightly)])
async def test_nothing_acknowledged_is_lost_and_only_what_was_in_flight_comes_twice(
    broker: LocalBroker, tmp_path: Path, kills: int
) -> None:
    name = topic(broker, f"Killed{kills}")
    proxy = Killed(broker, tmp_path)
    await proxy.start()
    stored: set[bytes] = set()
    unsure: set[bytes] = set()
    """Bodies that may come twice: the answer to the send did not come, and it is sent again; or that to the
    acknowledgement came so late that the message may have been given out anew.
    """
    done: Counter[bytes] = Counter()
    """Messages whose acknowledgement was answered."""
    asked: set[bytes] = set()
    """Messages whose acknowledgement may have been carried out, for it left; they need not come again."""
    is_over = asyncio.Event()
    options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]

    async def send(sender: int) -> None:
        client = BareClient(f"127.0.0.1:{proxy.port}", f"sender-{sender}", options=options)
        number = 0
        while not is_over.is_set():
            body = b"%d-%d" % (sender, number)
            try:
                if (await client.send(name, body)).status.code == pb.OK:
                    stored.add(body)
                    number += 1
                    continue
            except grpc.aio.AioRpcError:
                pass
            unsure.add(body)
            await asyncio.sleep(0.02)
        await client.close()

    async def consume() -> None:
        client = BareClient(f"127.0.0.1:{proxy.port}", "consumer", options=options)
        while not (is_over.is_set() and asked >= stored):
            try:
                await client.settle_in(client.consuming(name, name))
                while not (is_over.is_set() and asked >= stored):
                    began = time.monotonic()
                    for one in await client.receive(name, name, wait_ms=200, invisible_ms=INVISIBLE_MS):
                        asked.add(one.body)
                        answer = await client.acknowledge(name, name, one.system_properties.receipt_handle)
                        if time.monotonic() - began > INVISIBLE_MS / 1000:
                            unsure.add(one.body)
                        if answer.status.code == pb.OK:
                            done[one.body] += 1
            except (grpc.aio.AioRpcError, AssertionError):
                await asyncio.sleep(0.05)
        await client.close()

    working = [asyncio.create_task(send(number)) for number in range(SENDERS)]
    consuming = asyncio.create_task(consume())
    try:
        async with asyncio.timeout(240 + 30 * kills):
            for kill in range(kills):
                await until(lambda wanted=50 * (kill + 1): len(done) >= wanted)
                proxy.kill()
                await proxy.start()
            await until(lambda: len(done) >= 50 * (kills + 1))
            is_over.set()
            await asyncio.gather(*working, consuming)
    finally:
        for task in (*working, consuming):
            task.cancel()
        with contextlib.suppress(ProcessLookupError):
            proxy.kill()
    assert asked >= stored
    # What was received and not acknowledged came again, and is here once: its first delivery was not settled.
    assert {body for body, count in done.items() if count > 1} <= unsure
