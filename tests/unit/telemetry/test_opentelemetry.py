"""Spans and metrics of real producers and consumers, as an exporter gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from orbitmq import FIRST_OFFSET, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage, Retry
from orbitmq.telemetry import OpenTelemetry
from orbitmq.testing import Isolated
from tests.kit.client_queues import until


class Seen:
    """Exported spans."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = OpenTelemetry(tracers, MeterProvider([self._metrics]))

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name.startswith(name)]

    async def spans_of(self, name: str, count: int) -> list[ReadableSpan]:
        await until(lambda: len(self.spans(name)) >= count)
        return self.spans(name)

    def points(self, metric: str) -> list[Any]:
        data = self._metrics.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def producer(rocketmq_isolated: Isolated, seen: Seen) -> AsyncIterator[Producer]:
    async with Producer("telemetry", rocketmq_isolated.namesrv, middleware=[seen.telemetry]) as started:
        yield started


def consumer_of(mine: Isolated, seen: Seen) -> PushConsumer:
    return PushConsumer(
        mine.group(), mine.namesrv, consume_from_where=FIRST_OFFSET, middleware=[seen.telemetry]
    )


async def test_the_trace_goes_on_from_the_sender_to_the_handler(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic()
    message = Message(topic, b"12345", properties={"own": "kept"})
    sent = await producer.send(message)
    assert message.properties == {"own": "kept"}, "the program's message is its own"
    current = []

    async def handle(received: ReceivedMessage) -> None:
        current.append(trace.get_current_span().get_span_context())
        assert received.properties["own"] == "kept"

    async with consumer_of(rocketmq_isolated, seen) as consumer:
        consumer.subscribe(topic, "*", handle)
        [processed] = await seen.spans_of("process", 1)
    [send] = seen.spans("send ")
    assert (send.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert processed.parent is not None
    assert processed.parent.span_id == send.context.span_id
    assert current[0].span_id == processed.context.span_id
    assert send.attributes is not None
    assert send.attributes["messaging.message.id"] == sent.message_id
    assert send.attributes["messaging.message.body.size"] == 5
    [point] = seen.points("messaging.process.duration")
    assert (point.count, point.attributes["messaging.destination.name"]) == (1, topic)


async def test_a_plain_handler_in_a_thread_has_the_span_too(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic()
    await producer.send(Message(topic, b"1"))
    current = []

    def handle(message: ReceivedMessage) -> None:
        current.append(trace.get_current_span().get_span_context().span_id)

    async with consumer_of(rocketmq_isolated, seen) as consumer:
        consumer.subscribe(topic, "*", handle)
        [processed] = await seen.spans_of("process", 1)
    assert current == [processed.context.span_id]


async def test_a_batch_is_linked_to_every_send(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic()
    deliveries = [await producer.submit(Message(topic, b"1", sharding_key="k")) for _ in range(3)]
    await producer.flush()
    assert all(delivery.done() for delivery in deliveries)
    got: list[int] = []

    async def handle(messages: list[ReceivedMessage]) -> None:
        got.append(len(messages))

    async with consumer_of(rocketmq_isolated, seen) as consumer:
        consumer.subscribe(topic, "*", handle, max_messages=3, max_wait_ms=5000)
        [processed] = await seen.spans_of("process", 1)
    assert got == [3]
    assert processed.parent is None
    assert {link.context.span_id for link in processed.links} == {
        span.context.span_id for span in seen.spans("submit")
    }


async def test_a_handler_that_fails_is_an_error_with_its_kind(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic()
    await producer.send(Message(topic, b"1"))

    async def handle(message: ReceivedMessage) -> None:
        raise Retry(-1) from KeyError("price")

    async with consumer_of(rocketmq_isolated, seen) as consumer:
        consumer.subscribe(topic, "*", handle)
        [processed] = await seen.spans_of("process", 1)
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.attributes is not None
    assert processed.attributes["error.type"] == "KeyError"
    [point] = seen.points("messaging.client.consumed.messages")
    assert point.attributes["error.type"] == "KeyError"


async def test_a_send_that_fails_is_an_error_with_its_kind(rocketmq_isolated: Isolated, seen: Seen) -> None:
    topic = rocketmq_isolated.topic()
    async with Producer(
        "telemetry", rocketmq_isolated.namesrv, middleware=[seen.telemetry], delivery_timeout_ms=0
    ) as producer:
        with pytest.raises(Exception) as failed:  # noqa: PT011 - whatever it is
            await producer.send(Message(topic, b"1"), queue=MessageQueue(topic, "nowhere", 0))
    [span] = seen.spans("send ")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == type(failed.value).__qualname__


async def test_a_batch_that_is_sent_counts_its_messages(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic()
    await producer.send_batch([Message(topic, b"1"), Message(topic, b"22")])
    [span] = seen.spans("send_batch")
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 2
    assert [point.value for point in seen.points("messaging.client.sent.messages")] == [2]


async def test_a_stream_has_a_span_for_each_batch_and_its_messages_carry_them(
    rocketmq_isolated: Isolated, producer: Producer, seen: Seen
) -> None:
    topic = rocketmq_isolated.topic(queues=1)
    got: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        got.append(message.properties["traceparent"])

    async with consumer_of(rocketmq_isolated, seen) as consumer:
        consumer.subscribe(topic, "*", handle)
        assert (
            await producer.send_all((Message(topic, str(number)) for number in range(5)), batch_size=2) == 5
        )
        await seen.spans_of("process", 5)
    spans = seen.spans("send_all")
    counts = [(span.attributes or {}).get("messaging.batch.message_count", 1) for span in spans]
    assert sum(int(str(count)) for count in counts) == 5
    assert len(spans) >= 3
    assert {parent.split("-")[2] for parent in got} == {f"{span.context.span_id:016x}" for span in spans}
