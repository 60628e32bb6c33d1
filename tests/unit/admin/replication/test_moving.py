"""A broker is moved while messages come in: the new one is started by the command that the move shows."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.admin.replication.moving import Move, move
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(600)


@contextlib.asynccontextmanager
async def traffic(namesrv: str, sent: set[bytes]) -> AsyncIterator[None]:
    """Messages that are acknowledged, all the time."""

    async def flow() -> None:
        async with Producer("P", namesrv, delivery_timeout_ms=60_000) as producer:
            for number in range(1_000_000):
                body = b"%d" % number
                if (await producer.send(Message("T", body))).status.name == "SEND_OK":
                    sent.add(body)
                await asyncio.sleep(0.005)

    task = asyncio.create_task(flow())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def more_than(count: int, sent: set[bytes]) -> None:
    """Waits until more messages were acknowledged."""
    async with asyncio.timeout(60):
        while len(sent) <= count:  # noqa: ASYNC110 (the producer knows nothing of this)
            await asyncio.sleep(0.01)


async def all_read(namesrv: str, wanted: set[bytes]) -> None:
    """Returns once a group has got all messages."""
    left = set(wanted)
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        left.discard(message.body)
        if not left:
            done.set()

    async with PushConsumer("G", namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await asyncio.wait_for(done.wait(), 60)


async def test_a_master_is_moved_while_messages_come_in_and_none_is_lost(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    to = f"127.0.0.1:{free_ports(-2, 1)}"

    def say(line: str) -> None:
        if "orbitmq broker" in line:
            words = shlex.split(line.partition("\n")[2].replace(" DIR ", f" {tmp_path / 'new'} "))
            started.append(subprocess.Popen([sys.executable, "-m", *words], stdin=subprocess.DEVNULL))

    sent: set[bytes] = set()
    with LocalCluster(tmp_path / "old") as made:
        before = made.node("broker-a-0").address
        async with Admin(made.namesrv) as admin:
            try:
                async with traffic(made.namesrv, sent):
                    await more_than(20, sent)
                    found = await move(admin, "broker-a", to, say, 120.0)
                    assert found == Move("broker-a", before, to, was_master=True)
                    made.stop_node("broker-a-0")
                    await more_than(len(sent) + 20, sent)
                    assert (await move(admin, "broker-a", to, say)).before == to, (
                        "again: nothing is left to do"
                    )
                await all_read(made.namesrv, sent)
            finally:
                for process in started:
                    process.terminate()
                    process.wait(60)
    assert len(started) == 1
