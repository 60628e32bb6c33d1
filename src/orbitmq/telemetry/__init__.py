"""Traces and metrics of producers and consumers for OpenTelemetry (extra `otel`).

    from orbitmq.telemetry import OpenTelemetry

    producer = Producer("shop", middleware=[OpenTelemetry()])
    consumer = PushConsumer("billing", middleware=[OpenTelemetry()])

The trace continues from the sender to the handler: its context travels in the properties `traceparent` and
`tracestate` of messages. Only OpenTelemetry's API is needed; the program brings an SDK and exporters, and
without them nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from orbitmq import __version__
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.handlers import HoldBack, Outcome, Retry
from orbitmq.client.core.message import SendResult
from orbitmq.client.core.middleware import HandleNext, HandlerCall, Middleware, SendCall, SendNext
from orbitmq.extras import lacking

try:
    from opentelemetry import context, metrics, propagate, trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
except ModuleNotFoundError:
    raise InvalidArgument(lacking("orbitmq.telemetry", "opentelemetry-api", "otel")) from None

__all__ = ["OpenTelemetry"]

SCOPE = "orbitmq"
SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
"""Limits of the buckets of durations, after OpenTelemetry's conventions."""


class OpenTelemetry(Middleware):
    """Spans and metrics by OpenTelemetry's conventions for messaging.

    `send TOPIC` is a span of kind PRODUCER, from the call until the broker's answer; its name is that of the
    producer's method (`submit TOPIC`, `send_batch TOPIC`, ...). `send_all` has one for each batch.
    `process TOPIC`, of kind CONSUMER, is the call of a handler, and a child of the send of its message; the
    span of a handler of batches has a link to each send in place of a parent.

    Metrics, by topic, group and kind of error: `messaging.client.operation.duration`,
    `messaging.client.sent.messages`, `messaging.process.duration`, `messaging.client.consumed.messages`.

    `tracer_provider` and `meter_provider` are the program's, else the global ones. Several clients may share
    one object. Put it first in `middleware`, so that spans cover the other middleware too.
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

    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        """Make a span of a send."""
        topic = call.messages[0].topic
        about = _about(topic, call.operation, "send")
        span = self._tracer.start_span(
            f"{call.operation} {topic}",
            kind=SpanKind.PRODUCER,
            attributes=_of_span(about, [len(message.body) for message in call.messages]),
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        if carrier:
            call.add_properties(carrier)
        count, began = len(call.messages), time.perf_counter()
        try:
            results = await call_next()
        except BaseException as error:
            about["error.type"] = _set_error(span, error)
            raise
        else:
            if len(results) == 1:
                span.set_attribute("messaging.message.id", results[0].message_id)
                span.set_attribute("messaging.destination.partition.id", str(results[0].queue.queue_id))
            return results
        finally:
            span.end()
            self._send_seconds.record(time.perf_counter() - began, about)
            self._sent.add(count, about)

    async def handle(self, call: HandlerCall, call_next: HandleNext) -> Outcome:
        """Make a span of a handler's call; it is the current one while the handler runs."""
        messages = call.messages
        topic = messages[0].topic
        about = {**_about(topic, "process", "process"), "messaging.consumer.group.name": call.group}
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
        span = self._tracer.start_span(f"process {topic}", parent, SpanKind.CONSUMER, attributes, links)
        began = time.perf_counter()
        token = context.attach(trace.set_span_in_context(span))
        try:
            outcome = await call_next()
        except BaseException as error:
            about["error.type"] = _set_error(span, error)
            raise
        else:
            failed = outcome.others if isinstance(outcome, HoldBack) else outcome
            if isinstance(outcome, HoldBack):
                span.set_attribute("orbitmq.held_back", len(outcome.messages or messages))
                failed = outcome if outcome.__cause__ is not None else failed
            if isinstance(failed, Retry) and failed.messages != ():
                about["error.type"] = _set_error(span, failed.__cause__ or failed)
            return outcome
        finally:
            context.detach(token)
            span.end()
            self._process_seconds.record(time.perf_counter() - began, about)
            self._consumed.add(len(messages), about)


def _set_error(span: trace.Span, error: BaseException) -> str:
    """Mark the span as failed; gives the kind of the error."""
    kind = type(error).__qualname__
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.set_attribute("error.type", kind)
    return kind


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
