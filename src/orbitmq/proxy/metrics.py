"""Metrics of a proxy for Prometheus."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from orbitmq.broker.stats.metric_families import COUNTER, GAUGE, Family
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.front import Front
from orbitmq.proxy.remoting.port import RemotingPort
from orbitmq.proxy.renewal import Renewals
from orbitmq.server.metrics.exposition import (
    OPEN_METRICS_TYPE,
    TEXT_TYPE,
    Exposition,
    wants_open_metrics,
)
from orbitmq.server.metrics.http import HttpRequest, HttpResponse

MAX_SAMPLES = 2000

FAMILIES = {
    family.name: family
    for family in (
        Family("orbitmq_proxy_connections", GAUGE, "Open connections of clients."),
        Family("orbitmq_proxy_remoting_connections", GAUGE, "Clients of the remoting port."),
        Family("orbitmq_proxy_floods_total", COUNTER, "Connections that were ended for frames of no use."),
        Family("orbitmq_proxy_clients", GAUGE, "Clients whose settings are known, by kind.", ("kind",)),
        Family(
            "orbitmq_proxy_renewed_messages",
            GAUGE,
            "Messages that are kept invisible while their clients work on them.",
        ),
        Family(
            "orbitmq_proxy_calls_total", COUNTER, "Calls, by name and code of the answer.", ("call", "code")
        ),
    )
}


@dataclass(eq=False, repr=False)
class ProxyMetrics:
    """Samples of one proxy."""

    _address: str
    _front: Front
    _remoting: RemotingPort
    _clients: Clients
    _renewals: Renewals
    _calls: Counter[tuple[str, str]]

    def page(self, request: HttpRequest) -> HttpResponse:
        """The page for Prometheus."""
        open_metrics = wants_open_metrics(request.headers.get("accept", ""))
        exposition = Exposition({"address": self._address}, MAX_SAMPLES, FAMILIES)
        exposition.add("orbitmq_proxy_connections", (), len(self._front.relays))
        exposition.add("orbitmq_proxy_remoting_connections", (), len(self._remoting))
        exposition.add("orbitmq_proxy_floods_total", (), self._front.floods)
        kinds = Counter("producer" if client.group is None else "consumer" for client in self._clients)
        for kind in ("producer", "consumer"):
            exposition.add("orbitmq_proxy_clients", (kind,), kinds[kind])
        exposition.add("orbitmq_proxy_renewed_messages", (), len(self._renewals))
        for (call, code), count in sorted(self._calls.items()):
            exposition.add("orbitmq_proxy_calls_total", (call, code), count)
        return HttpResponse(
            body=exposition.text(open_metrics=open_metrics),
            content_type=OPEN_METRICS_TYPE if open_metrics else TEXT_TYPE,
        )
