"""A Python consumer and a Java one in one group share the queues, over either broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.kit.class_archives import QUICK_START
from tests.needs import java, need
from tests.peers import machine
from tests.peers.apache import OPENS, POM

SOURCE = Path(__file__).with_name("JavaMember.java")


class JavaMember:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.bodies: list[str] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, *arguments: str) -> JavaMember:
        need("java", "mvn")
        path = f"{machine.jars(POM, 'apache-5.4.0')}/*"
        command = [java(), *OPENS, *QUICK_START, "-cp", path, str(SOURCE), *arguments]
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"got "):
                self.bodies.append(line.decode().removeprefix("got ").strip())

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.wait()
        await self._reading


@pytest.mark.needs("java", "mvn")
async def test_python_and_java_share_a_group(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("mixed"), fresh("g")
    await producer.send(Message(topic, b"first"))
    mine: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        mine.append(message.body.decode())

    async with PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, "*", handle)
        await until(lambda: mine == ["first"])
        java = await JavaMember.start(cluster.namesrv, group, topic)
        try:
            await until(lambda: len(consumer.queues) == 2)
            sent = {f"shared {n}" for n in range(40)}
            for body in sorted(sent):
                await producer.send(Message(topic, body))
            await until(lambda: {*mine, *java.bodies} >= sent)
            assert len(sent & set(mine)) == len(sent & set(java.bodies)) == 20
        finally:
            await java.stop()
        await until(lambda: len(consumer.queues) == 4)
        for number in range(8):
            await producer.send(Message(topic, f"alone {number}"))
        # Messages that Java had last may come again: some of its last commits of offsets follow its farewell.
        await until(lambda: set(mine) >= {f"alone {n}" for n in range(8)})
