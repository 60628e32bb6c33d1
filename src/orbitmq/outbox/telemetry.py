"""A relay's metrics: for OpenTelemetry (extra `otel`), and as text for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from orbitmq import __version__
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking
from orbitmq.outbox.relay import Relay

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

Value = Callable[[Relay], float]

COUNTERS: dict[str, tuple[str, str, Value]] = {
    "sent": ("{message}", "Messages sent.", lambda relay: relay.metrics.sent),
    "parked": (
        "{message}",
        "Messages parked, for they were refused for good.",
        lambda relay: relay.metrics.parked,
    ),
    "deleted": ("{message}", "Rows of sent messages deleted.", lambda relay: relay.metrics.deleted),
    "batches": ("{batch}", "Batches.", lambda relay: relay.metrics.batches),
    "failed_sends": (
        "{failure}",
        "Batches of a topic with a failed send that is tried again.",
        lambda relay: relay.metrics.failed_sends,
    ),
    "database_errors": ("{error}", "Errors of the database.", lambda relay: relay.metrics.database_errors),
}
"""Unit, description and value by name."""

GAUGES: dict[str, tuple[str, str, Value]] = {
    "pending_messages": (
        "{message}",
        "Messages in the database that are not sent.",
        lambda relay: relay.metrics.counts.pending,
    ),
    "held_messages": (
        "{message}",
        "Messages that wait for a parked one of their key.",
        lambda relay: relay.metrics.counts.held,
    ),
    "parked_messages": (
        "{message}",
        "Parked messages in the database.",
        lambda relay: relay.metrics.counts.parked,
    ),
    "oldest_pending_age": (
        "s",
        "Age of the oldest message that is not sent.",
        lambda relay: relay.metrics.counts.age_ms(time.time_ns() // 1_000_000) / 1000,
    ),
    "healthy": ("1", "1 while nothing fails, else 0.", lambda relay: float(relay.healthy)),
}


def observe(relay: Relay, meter_provider: MeterProvider | None = None) -> None:
    """Have OpenTelemetry collect a relay's metrics, `orbitmq.outbox.sent` and so on.

    `meter_provider` is the program's, else the global one. Raises InvalidArgument without OpenTelemetry.
    """
    try:
        from opentelemetry import metrics
    except ModuleNotFoundError:
        raise InvalidArgument(lacking("observe", "opentelemetry-api", "otel")) from None
    meter = metrics.get_meter("orbitmq", __version__, meter_provider)
    about = {"orbitmq.outbox.table": relay.outbox.name}

    def observed(value: Value) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [metrics.Observation(value(relay), about)]

    for name, (unit, text, value) in COUNTERS.items():
        meter.create_observable_counter(f"orbitmq.outbox.{name}", [observed(value)], unit, text)
    for name, (unit, text, value) in GAUGES.items():
        meter.create_observable_gauge(f"orbitmq.outbox.{name}", [observed(value)], unit, text)


def prometheus_text(relay: Relay) -> str:
    """A relay's metrics in Prometheus' text format 0.0.4: `orbitmq_outbox_sent_total` and so on."""
    lines = []
    for kind, suffix, families in (("counter", "_total", COUNTERS), ("gauge", "", GAUGES)):
        for name, (unit, text, value) in families.items():
            full = f"orbitmq_outbox_{name}{'_seconds' if unit == 's' else ''}{suffix}"
            lines += [
                f"# HELP {full} {text}",
                f"# TYPE {full} {kind}",
                f'{full}{{table="{relay.outbox.name}"}} {value(relay):g}',
            ]
    return "\n".join(lines) + "\n"
