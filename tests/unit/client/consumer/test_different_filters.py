"""Members of a group that read by different filters: all who can know say so, and nobody else is silenced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from orbitmq import FIRST_OFFSET, FiltersDiffer, Message, Producer, PushConsumer
from orbitmq.broker.client import clients
from orbitmq.cli.app import run
from orbitmq.client.running import health_served
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import LocalBroker
from tests.kit.client_queues import Seen, until


@pytest.fixture(scope="module")
def own() -> Iterator[LocalBroker]:
    port = free_ports()
    with LocalBroker(healthPort=port, metricsExporterType="PROM", metricsPromExporterPort=port) as broker:
        broker.create_topic("stray", 2)
        broker.metrics = f"http://127.0.0.1:{port}/metrics"  # type: ignore[attr-defined]
        yield broker


def member(broker: LocalBroker, tags: str, seen: Seen) -> PushConsumer:
    consumer = PushConsumer("healthy", broker.namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("stray", tags, seen)
    return consumer


async def send(broker: LocalBroker, *bodies: bytes) -> None:
    """Good messages, to the queues in turn."""
    async with Producer("p", broker.namesrv) as producer:
        for number, body in enumerate(bodies):
            queue = (await producer.queues("stray"))[number % 2]
            await producer.send(Message("stray", body, tags="good"), queue=queue)


def differing(consumer: PushConsumer) -> FiltersDiffer | None:
    return next((one for one in consumer.errors.values() if isinstance(one, FiltersDiffer)), None)


async def get(address: str) -> str:
    host, _, rest = address.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(f"GET /{rest} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


async def test_a_stray_member_is_told_of_and_leaves_nothing_behind(
    own: LocalBroker, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    seen, port = Seen(), free_ports()
    consumer = member(own, "good", seen)
    async with consumer, health_served([consumer], f"127.0.0.1:{port}"):
        await send(own, b"1", b"2")
        await seen.count(2)
        assert "200 OK" in await get(f"http://127.0.0.1:{port}/")
        async with member(own, "other", Seen()) as stray:
            await until(lambda: differing(consumer) and differing(stray))
            names = [f"`good` ({consumer.client_id})", f"`other` ({stray.client_id})"]
            for one in (consumer, stray):
                assert all(name in str(differing(one)) for name in names)
            assert not consumer.healthy
            probe = await get(f"http://127.0.0.1:{port}/")
            assert "503" in probe
            assert all(name in probe for name in names)
            assert await asyncio.to_thread(run, ["why", "healthy", "--namesrv", own.namesrv, "--json"]) == 0
            [cause, *_] = json.loads(capfd.readouterr().out)
            assert cause["cause"] == "SUBSCRIPTIONS_DIFFER"
            assert all(name in cause["evidence"][0] for name in names)
            warnings = [one.getMessage() for one in caplog.records if one.name == clients.__name__]
            assert len(warnings) == 1
            assert all(name in warnings[0] for name in names)
            metrics = await get(own.metrics)  # type: ignore[attr-defined]
            assert 'consumer_group="healthy",topic="stray"' in metrics.replace(", ", ",")
        await until(lambda: consumer.healthy and len(consumer.queues) == 2)
        await send(own, b"3", b"4", b"5", b"6")
        await seen.count(6)
        metrics = await get(own.metrics)  # type: ignore[attr-defined]
        [count] = [line for line in metrics.splitlines() if line.startswith("orbitmq_filters_differed_total")]
        assert float(count.split()[-1]) == 1
        assert "\norbitmq_differing_filters{" not in metrics


@pytest.mark.parametrize("other", [["--tag", "typo"], ["--topic", "elsewhere"]])
async def test_consume_does_not_join_a_group_that_reads_otherwise(
    own: LocalBroker, capfd: pytest.CaptureFixture[str], other: list[str]
) -> None:
    own.create_topic("elsewhere", 1)
    command = ["consume", "--namesrv", own.namesrv, "--topic", "stray", "--group", "healthy", "--no-follow"]
    async with member(own, "b || a", Seen()) as consumer:
        assert await asyncio.to_thread(run, [*command, "--idle", "0.1", *other]) == 1
        told = capfd.readouterr().err
        assert f"`a || b` ({consumer.client_id})" in told
        assert "--join-anyway" in told
        assert consumer.healthy
        for joins in (["--tag", "a||b"], [*other, "--join-anyway"]):
            assert await asyncio.to_thread(run, [*command, "--idle", "0.1", *joins]) == 0
