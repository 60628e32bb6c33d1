"""Metrics of a delay service, as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orbitmq.delay_service.rules.delivery import LATENESS_LIMITS
from orbitmq.delay_service.rules.lanes import PREFIX
from orbitmq.delay_service.store.keys import HOUR_MS
from orbitmq.delay_service.store.store import DelayStore

if TYPE_CHECKING:
    from orbitmq.delay_service.rules.ddmq_requests import ThriftCounts
    from orbitmq.delay_service.rules.delivery import DeliveryCounts
    from orbitmq.delay_service.rules.intake import IntakeCounts

HOURS = (*range(1, 25), 24 * 7, 24 * 30, 24 * 365)
"""Ends of the spans by which pending messages are counted: each hour of a day, then longer ones."""
MOST_TARGETS = 1000
"""Targets with samples of their own; those beyond are added up."""


def _heading(name: str, kind: str, about: str) -> str:
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def exposition(
    store: DelayStore,
    intake: IntakeCounts,
    delivery: DeliveryCounts,
    lost: dict[str, int],
    clock_jumps: int,
    now: int,
    thrift: ThriftCounts | None = None,
) -> bytes:
    """All samples as text."""
    parts = [
        *_pending(store, now),
        *_counter("orders_total", "Orders carried out, by outcome.", "outcome", intake.orders),
        *_counter("deliveries_total", "Messages stored by their target.", "target", delivery.sent),
        *_counter("late_total", "Deliveries more than a second late.", "target", delivery.late),
        *_counter("failures_total", "Batches of which a part was not stored.", "target", delivery.failed),
        *_counter("dead_letters_total", "Messages that became dead letters.", "target", delivery.dead),
        *_counter("expired_total", "Messages that expired before they were due.", "target", delivery.expired),
        *_counter("lost_at_source_total", "Messages deleted before they were read.", "source", lost),
        *_lateness(delivery),
        _heading("orbitmq_delay_store_bytes", "gauge", "Bytes of the store's files."),
        f"orbitmq_delay_store_bytes {store.size_bytes}\n",
        _heading("orbitmq_delay_clock_jumps_total", "counter", "Jumps of the machine's clock."),
        f"orbitmq_delay_clock_jumps_total {clock_jumps}\n",
        _heading("orbitmq_delay_replies_lost_total", "counter", "Replies that their topic refused."),
        f"orbitmq_delay_replies_lost_total {delivery.replies_lost}\n",
        _heading("orbitmq_delay_dead_letters_lost_total", "counter", "Dead letters that no topic took."),
        f"orbitmq_delay_dead_letters_lost_total {delivery.letters_lost}\n",
        _heading(
            "orbitmq_delay_producer_skew_seconds",
            "gauge",
            "Store time of the last order minus its sender's time.",
        ),
    ]
    for source, skew in intake.skew_ms.items():
        parts.append(f'orbitmq_delay_producer_skew_seconds{{source="{_escaped(source)}"}} {skew / 1000}\n')
    if thrift is not None:
        parts += _thrift(thrift)
    return "".join(parts).encode()


def _counter(name: str, about: str, label: str, counts: dict[str, int]) -> Iterator[str]:
    name = f"orbitmq_delay_{name}"
    yield _heading(name, "counter", about)
    rest = 0
    for place, (value, count) in enumerate(sorted(counts.items())):
        if place < MOST_TARGETS:
            yield f'{name}{{{label}="{_escaped(value)}"}} {count}\n'
        else:
            rest += count
    if rest:
        yield f'{name}{{otel_metric_overflow="true"}} {rest}\n'


def _thrift(counts: ThriftCounts) -> Iterator[str]:
    name = "orbitmq_delay_thrift_results_total"
    yield _heading(name, "counter", "Calls of DDMQ's SDKs, by method and code.")
    for (method, code), count in sorted(counts.results.items()):
        yield f'{name}{{method="{method}",code="{code}"}} {count}\n'
    yield _heading("orbitmq_delay_thrift_connections", "gauge", "Connections of DDMQ's SDKs.")
    yield f"orbitmq_delay_thrift_connections {counts.connections}\n"
    yield from _counter("thrift_ended_total", "Connections that were ended.", "reason", counts.refused)


def _pending(store: DelayStore, now: int) -> Iterator[str]:
    yield _heading(
        "orbitmq_delay_pending", "gauge", "Pending messages by target and time until they are due."
    )
    hour = now // HOUR_MS
    rest = 0
    for place, (number, hours) in enumerate(list(store.counts.items())):
        if place >= MOST_TARGETS:
            rest += sum(hours.values())
            continue
        target = _escaped(store.text(number).removeprefix(PREFIX))
        sums: dict[str, int] = {}
        for due, count in hours.items():
            place_of = bisect_right(HOURS, due - hour)
            later = "later" if place_of == len(HOURS) else f"{HOURS[place_of]}h"
            label = "due" if due < hour else later
            sums[label] = sums.get(label, 0) + count
        for label, count in sums.items():
            yield f'orbitmq_delay_pending{{target="{target}",within="{label}"}} {count}\n'
    if rest:
        yield f'orbitmq_delay_pending{{otel_metric_overflow="true"}} {rest}\n'


def _lateness(delivery: DeliveryCounts) -> Iterator[str]:
    name = "orbitmq_delay_lateness_seconds"
    yield _heading(name, "histogram", "Time between a message's due time and its delivery.")
    total = 0
    for limit, count in zip(LATENESS_LIMITS, delivery.lateness, strict=False):
        total += count
        yield f'{name}_bucket{{le="{limit / 1000}"}} {total}\n'
    total += delivery.lateness[-1]
    yield f'{name}_bucket{{le="+Inf"}} {total}\n'
    yield f"{name}_sum {delivery.lateness_sum_ms / 1000}\n{name}_count {total}\n"
