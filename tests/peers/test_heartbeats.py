"""Heartbeats of version 2: a Java consumer tells its subscriptions once, and then only that it lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq import Message, Producer
from tests.client.naming import fresh, until
from tests.needs import need
from tests.peers.mqadmin_shell import Shell
from tests.peers.orbitmq_process import OrbitMQ


@pytest.fixture
def java(orbitmq_server: OrbitMQ, tmp_path: Path) -> Iterator[Shell]:
    need("java", "mvn")
    shell = Shell(orbitmq_server.namesrv, tmp_path / "java")
    yield shell
    shell.close()


async def test_subscriptions_stay_though_they_are_told_once(orbitmq_server: OrbitMQ, java: Shell) -> None:
    topic, group = fresh("beats"), fresh("g")
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 2 -w 2")
    java.done(f"@listen v2 {group} {topic} 16")
    async with Producer(fresh("p"), orbitmq_server.namesrv) as producer:
        await producer.send(Message(topic, b"first"))
        assert "first" in java.done(f"@heard {group} 1 60000")
        # Ten more heartbeats, 500 ms apart.
        java.done(f"@heard {group} 2 5000")
        told = java.done(f"consumerConnection -g {group}")
        assert topic in told
        assert "CONSUME_PASSIVELY" in told
        await producer.send(Message(topic, b"second"))
        await until(lambda: "second" in java.done(f"@heard {group} 2 1000"), 60)
