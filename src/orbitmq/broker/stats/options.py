"""The rows about metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.options import InvalidValue, Settings, option

_LABEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


@dataclass(kw_only=True)
class MetricsOptions(Settings, owner="BrokerConfig"):
    """Options of metrics."""

    metrics_exporter_type: str = option(
        "DISABLE",
        "PROM serves metrics to Prometheus at http://HOST:PORT/metrics.",
        java_type="MetricsExporterType",
        choices=("DISABLE", "OTLP_GRPC", "PROM", "LOG"),
        only=("DISABLE", "PROM"),
        reason="metrics are scraped, not pushed or logged; an OpenTelemetry collector can do that",
    )
    metrics_prom_exporter_port: int = option(5557, "Port of the metrics.", minimum=1, maximum=65535)
    metrics_prom_exporter_host: str = option(
        "", "Address of that port; bindAddress if empty (Apache: brokerIP1)."
    )
    metrics_label: str = option("", "Additional labels of every sample: NAME:VALUE separated by `,`.")
    metrics_in_delta: bool = option(
        False,
        "Add the label aggregation=delta to every sample. As with Apache, counters are "
        "cumulative all the same.",
    )
    metrics_otel_cardinality_limit: int = option(
        50_000,
        "Maximum of samples of one metric. The rest is summed up in one sample with the label "
        "otel_metric_overflow.",
        mutable=True,
        minimum=1,
    )
    enable_remoting_metrics: bool = option(True, "Export metrics of request durations.")
    enable_message_store_metrics: bool = option(
        True, "Export metrics of the store and of timers.", mutable=True
    )
    enable_pop_metrics: bool = option(True, "Export metrics of pops.", mutable=True)
    enable_connection_metrics: bool = option(True, "Export metrics of producers and consumers.", mutable=True)
    enable_transaction_metrics: bool = option(True, "Export metrics of transactions.", mutable=True)
    enable_stats_metrics: bool = option(
        True, "Export metrics of topics, groups and permissions.", mutable=True
    )
    enable_request_metrics: bool = option(
        True, "Export metrics of incoming and outgoing messages.", mutable=True
    )
    enable_lag_and_dlq_metrics: bool = option(
        True, "Export metrics of consumer lag and dead letters.", mutable=True
    )

    def complete(self) -> None:
        super().complete()
        try:
            list(parse_labels(self.metrics_label))
        except ValueError as error:
            raise InvalidValue(
                "metricsLabel", self.metrics_label, str(error), self.sources.get("metricsLabel", "settings")
            ) from None


def parse_labels(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of `name:value,name:value`. Raises ValueError, which says what it wants."""
    for item in text.split(","):
        if not item.strip():
            continue
        name, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or ":" in value or not _LABEL_NAME.fullmatch(name):
            raise ValueError("NAME:VALUE, several with `,` between; a name has letters, digits and _")
        yield name, value
