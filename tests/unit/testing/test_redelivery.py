"""The fixture that delivers every message three times: seen without `once`, and suppressed with it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.idempotence import Event, OnceTelemetry, once
from orbitmq.telemetry import OpenTelemetry
from orbitmq.testing import MemoryStore, Redelivering
from tests.kit.client_queues import until

COUNT = 20


@pytest.mark.needs("linux")
async def test_every_message_comes_three_times_and_once_makes_it_one(
    rocketmq_redelivering: Redelivering,
) -> None:
    topic, namesrv = rocketmq_redelivering.topic("orders"), rocketmq_redelivering.namesrv
    deliveries, effects, order = Counter[bytes](), Counter[bytes](), list[bytes]()
    arrived, again = list[bytes](), asyncio.Event()
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    guard = once(MemoryStore(), key="orderId", observers=[OnceTelemetry(MeterProvider([reader]))])

    async def without(message: ReceivedMessage) -> None:
        arrived.append(message.body)
        if message.body == b"0" and arrived.count(b"0") == 1:
            await again.wait()  # the first delivery of it runs while the second one comes
        elif message.body == b"0":
            again.set()
        deliveries[message.body] += 1
        order.append(message.body)

    @guard
    async def with_once(message: ReceivedMessage) -> None:
        effects[message.body] += 1

    async with (
        Producer("p", namesrv) as producer,
        PushConsumer("without", namesrv, consume_from_where=FIRST_OFFSET) as first,
        PushConsumer(
            "with", namesrv, consume_from_where=FIRST_OFFSET, middleware=[OpenTelemetry(tracers)]
        ) as second,
    ):
        first.subscribe(topic, "*", without)
        second.subscribe(topic, "*", with_once)
        for number in range(COUNT):
            await producer.send(Message(topic, b"%d" % number, properties={"orderId": str(number)}))
        await until(lambda: deliveries.total() >= 3 * COUNT and guard.counts[Event.DUPLICATE] >= 2 * COUNT)
    bodies = [b"%d" % number for number in range(COUNT)]
    assert deliveries == dict.fromkeys(bodies, 3)
    assert effects == dict.fromkeys(bodies, 1)
    assert order != sorted(order, key=int)
    events = [event for span in spans.get_finished_spans() for event in span.events]
    outcomes = Counter(str((event.attributes or {})["orbitmq.once.outcome"]) for event in events)
    assert (outcomes["handled"], outcomes["duplicate"]) == (COUNT, 2 * COUNT)
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, str(point.attributes["orbitmq.once.outcome"])): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "orbitmq.once.messages"
        for point in metric.data.data_points
    }
    assert points["orbitmq.once.messages", "handled"] == COUNT
    assert points["orbitmq.once.messages", "duplicate"] == 2 * COUNT
    assert trace.get_current_span().get_span_context().is_valid is False
