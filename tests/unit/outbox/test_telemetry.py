"""The metrics of a relay, for OpenTelemetry and for Prometheus."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from orbitmq import Message, Producer
from orbitmq.outbox import Outbox, Relay
from orbitmq.outbox.telemetry import COUNTERS, GAUGES, observe, prometheus_text
from orbitmq.testing.local_broker import Isolated
from tests.client.naming import until
from tests.kit.outbox import states, until_in_database


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_what_was_sent_and_what_waits_is_counted(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()

    def write() -> None:
        with engine.begin() as connection:
            outbox.add(connection, Message(topic, b"x", delay_ms=30 * 86_400_000))
            outbox.add(connection, Message(topic, b"x"))

    await asyncio.to_thread(write)
    reader = InMemoryMetricReader()
    async with Producer("outbox", rocketmq_isolated.namesrv) as producer:
        relay = Relay(outbox, engine, producer)
        observe(relay, MeterProvider([reader]))
        async with relay:
            await until_in_database(engine, lambda _: sorted(states(outbox, engine)) == ["parked", "sent"])
            await until(lambda: relay.metrics.sent and relay.metrics.parked)  # counted after the commit
            text = prometheus_text(relay)
            data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: metric.data.data_points[0].value  # type: ignore[union-attr]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert found.keys() == {f"orbitmq.outbox.{name}" for name in (*COUNTERS, *GAUGES)}
    assert (found["orbitmq.outbox.sent"], found["orbitmq.outbox.parked"]) == (1, 1)
    assert found["orbitmq.outbox.healthy"] == 1
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["orbitmq_outbox_sent_total"] == 1
    assert "orbitmq_outbox_oldest_pending_age_seconds" in samples
    assert len(samples) == len(found)
