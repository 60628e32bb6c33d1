"""Traces and metrics of producers and consumers for OpenTelemetry (extra `otel`).

    from orbitmq.telemetry import OpenTelemetry

    producer = Producer("shop", telemetry=OpenTelemetry())
    consumer = PushConsumer("billing", telemetry=OpenTelemetry())

The trace goes on from the sender to the handler: its context travels in the properties `traceparent` and
`tracestate` of messages. Only OpenTelemetry's API is needed; the program brings an SDK and exporters, and
without them nothing is measured.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

from orbitmq import __version__
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult

try:
    from opentelemetry import context, metrics, propagate, trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
except ModuleNotFoundError:
    raise InvalidArgument("orbitmq.telemetry needs opentelemetry-api: pip install 'orbitmq[otel]'") from None

__all__ = ["OpenTelemetry"]

SCOPE = "orbitmq"
SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
"""Limits of the buckets of durations, after OpenTelemetry's conventions."""


class OpenTelemetry:
    """Spans and metrics by OpenTelemetry's conventions for messaging.

    `send TOPIC` (`submit`, `send_batch`) is a span of kind PRODUCER, from the call until the broker's answer;
    `send_all` has one for each batch.
    `process TOPIC`, of kind CONSUMER, is the call of a handler, and a child of the send of its message; the
    span of a handler of batches has a link to each send in place of a parent.

    Metrics, by topic, group and kind of error: `messaging.client.operation.duration`,
    `messaging.client.sent.messages`, `messaging.process.duration`, `messaging.client.consumed.messages`.

    `tracer_provider` and `meter_provider` are the program's, else the global ones. Several clients may share
    one object. `send_oneway`, `request` and transactions are not observed.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider)
        self._send_seconds = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of sends, retries included.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent, or failed to be."
        )
        self._process_seconds = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of handlers' calls.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that handlers got."
        )

    def sending(self, operation: str, messages: Sequence[Message]) -> Sending:
        """A send begins."""
        topic = messages[0].topic if messages else ""
        about = _about(topic, operation, "send")
        span = self._tracer.start_span(
            f"{operation} {topic}",
            kind=SpanKind.PRODUCER,
            attributes=_of_span(about, [len(message.body) for message in messages]),
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        carried = [_with_properties(message, carrier) for message in messages] if carrier else messages
        return Sending(self, span, about, carried)

    def processing(self, group: str, messages: Sequence[ReceivedMessage]) -> Processing:
        """A handler is called."""
        about = {**_about(messages[0].topic, "process", "process"), "messaging.consumer.group.name": group}
        senders = [propagate.extract(message.properties) for message in messages]
        attributes = _of_span(about, [message.size_bytes for message in messages])
        parent, links = None, None
        if len(messages) == 1:
            parent = senders[0]
            attributes |= {
                "messaging.message.id": messages[0].message_id,
                "messaging.destination.partition.id": str(messages[0].queue.queue_id),
                "orbitmq.attempt": messages[0].reconsume_times + 1,
            }
        else:
            spans = [trace.get_current_span(sender).get_span_context() for sender in senders]
            links = [Link(one) for one in spans if one.is_valid]
        span = self._tracer.start_span(
            f"process {messages[0].topic}", parent, SpanKind.CONSUMER, attributes, links
        )
        return Processing(self, span, about, len(messages))

    def measure_send(self, about: Mapping[str, str], began: float, count: int) -> None:
        """Counts a send that has ended."""
        self._send_seconds.record(time.perf_counter() - began, about)
        self._sent.add(count, about)

    def measure_process(self, about: Mapping[str, str], began: float, count: int) -> None:
        """Counts a handler's call that has ended."""
        self._process_seconds.record(time.perf_counter() - began, about)
        self._consumed.add(count, about)


class Sending:
    """The span of one send."""

    def __init__(
        self,
        telemetry: OpenTelemetry,
        span: trace.Span,
        about: Mapping[str, str],
        messages: Sequence[Message],
    ) -> None:
        self._telemetry = telemetry
        self._span = span
        self._about = about
        self._began = time.perf_counter()
        self.messages = messages

    def sent(self, results: Sequence[SendResult]) -> None:
        """Every message is stored."""
        if len(results) == 1:
            result = results[0]
            self._span.set_attribute("messaging.message.id", result.message_id)
            self._span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        self._end(self._about)

    def failed(self, error: BaseException) -> None:
        """The send ended with an exception."""
        kind = type(error).__qualname__
        self._span.record_exception(error)
        self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.set_attribute("error.type", kind)
        self._end({**self._about, "error.type": kind})

    def _end(self, about: Mapping[str, str]) -> None:
        self._span.end()
        self._telemetry.measure_send(about, self._began, len(self.messages))


class Processing:
    """The span of one call of a handler; it is the current one while the handler runs."""

    def __init__(
        self, telemetry: OpenTelemetry, span: trace.Span, about: Mapping[str, str], count: int
    ) -> None:
        self._telemetry = telemetry
        self._span = span
        self._about = about
        self._count = count
        self._began = time.perf_counter()
        self._token = context.attach(trace.set_span_in_context(span))

    def processed(self, retried: int, error: BaseException | None) -> None:
        """The handler has ended."""
        context.detach(self._token)
        about = dict(self._about)
        if retried:
            about["error.type"] = type(error).__qualname__ if error is not None else "Retry"
            if error is not None:
                self._span.record_exception(error)
            self._span.set_attribute("error.type", about["error.type"])
            self._span.set_status(Status(StatusCode.ERROR, str(error or "the handler asked for a retry")))
        self._span.end()
        self._telemetry.measure_process(about, self._began, self._count)


def _about(topic: str, name: str, kind: str) -> dict[str, str]:
    """The attributes that spans and metrics share: few values each."""
    return {
        "messaging.system": "rocketmq",
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }


def _of_span(about: Mapping[str, str], sizes: Sequence[int]) -> dict[str, Any]:
    """The attributes of a span alone."""
    attributes: dict[str, Any] = {**about, "messaging.message.body.size": sum(sizes)}
    if len(sizes) > 1:
        attributes["messaging.batch.message_count"] = len(sizes)
    return attributes


def _with_properties(message: Message, more: Mapping[str, str]) -> Message:
    """A copy with more properties: the program's message stays as it is."""
    carried = copy.copy(message)
    carried.properties = {**message.properties, **more}
    return carried
