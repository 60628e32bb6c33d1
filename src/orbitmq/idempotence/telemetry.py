"""Metrics and spans of idempotent handlers for OpenTelemetry (extra `otel`).

@once(store, key="transferId", observers=[OnceTelemetry()])
"""

from __future__ import annotations

from orbitmq import __version__
from orbitmq.client import InvalidArgument
from orbitmq.extras import lacking
from orbitmq.idempotence.keys import Scope
from orbitmq.idempotence.observing import Event, Observer

try:
    from opentelemetry import metrics, trace
except ModuleNotFoundError:
    raise InvalidArgument(lacking("OnceTelemetry", "opentelemetry-api", "otel")) from None


class OnceTelemetry(Observer):
    """Counters of outcomes, and the outcome on the span of the handler's call (`orbitmq.telemetry`).

    `orbitmq.once.messages` counts messages by `orbitmq.once.outcome` (`handled`, `duplicate`, `in_flight`,
    `conflict`, `invalid_key`, `failed`, `unavailable`), `orbitmq.once.purged` deleted keys, and
    `orbitmq.once.rows` is the number of keys in the store, once a minute. All have the consumer group, the
    topic and the handler. The current span gets an event `orbitmq.once` with outcome and number.
    `meter_provider` is the program's, else the global one.
    """

    def __init__(self, meter_provider: metrics.MeterProvider | None = None) -> None:
        meter = metrics.get_meter("orbitmq", __version__, meter_provider)
        self._messages = meter.create_counter(
            "orbitmq.once.messages", "{message}", "Messages of idempotent handlers, by outcome."
        )
        self._purged = meter.create_counter(
            "orbitmq.once.purged", "{key}", "Keys deleted after their retention."
        )
        self._rows = meter.create_gauge("orbitmq.once.rows", "{key}", "Keys in the store.")

    def seen(self, event: Event, scope: Scope, count: int) -> None:
        """Count, and note on the current span."""
        about = _about(scope)
        if event is Event.PURGED:
            self._purged.add(count, about)
            return
        self._messages.add(count, {**about, "orbitmq.once.outcome": event.value})
        noted: dict[str, str | int] = {"orbitmq.once.outcome": event.value, "orbitmq.once.count": count}
        trace.get_current_span().add_event("orbitmq.once", noted)

    def rows(self, scope: Scope, count: int) -> None:
        """Record the number of keys."""
        self._rows.set(count, _about(scope))


def _about(scope: Scope) -> dict[str, str]:
    return {
        "messaging.system": "rocketmq",
        "messaging.consumer.group.name": scope.group,
        "messaging.destination.name": scope.topic,
        "orbitmq.once.handler": scope.handler,
    }
