"""The pages of a broker over HTTP: its health, and its metrics where metricsExporterType is PROM.

All of them are on every port that is configured: healthPort, metricsPromExporterPort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from orbitmq.broker.metrics import Sample
from orbitmq.broker.options import BrokerSettings
from orbitmq.server.metrics.health import Health
from orbitmq.server.metrics.scrape import Metrics
from orbitmq.server.turn.latency import RpcLatency
from orbitmq.server.turn.turn import Turns
from orbitmq.store import MessageStore


class Reports(Health):
    """The pages of a broker."""

    def __init__(self, settings: BrokerSettings) -> None:
        super().__init__()
        self._settings = settings
        self._executor: ThreadPoolExecutor | None = None
        self._metrics: Metrics | None = None
        self.has_metrics = settings.metrics_exporter_type == "PROM"
        self.latency = RpcLatency() if self.has_metrics and settings.enable_remoting_metrics else None
        """Notes how long requests take; None where no scraper asks."""

    async def open(self) -> None:
        """Listens where the options say. Raises CannotListen."""
        settings = self._settings
        own = (settings.health_host or settings.bind_address, settings.health_port)
        await self.listen(*own)
        if self.has_metrics:
            host = settings.metrics_prom_exporter_host or settings.bind_address
            if (host, settings.metrics_prom_exporter_port) != own:
                await self.http.listen(host, settings.metrics_prom_exporter_port)

    def serve(
        self,
        samples: Callable[[int], Iterator[Sample | None]],
        store: MessageStore,
        turns: Turns,
        now: Callable[[], int],
    ) -> None:
        """From now on the broker answers: its pages report on it. `samples(now)` are those of its rules."""

        def why_not() -> str:
            return "" if store.is_writable else store.figures().refusal

        self.why_not = why_not
        if self.has_metrics:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="orbitmq-metrics")
            latency = self.latency or RpcLatency()
            self._metrics = Metrics(samples, store, turns, latency, now, self._executor, self._settings)
            self.http.pages["/metrics"] = self._metrics.page

    async def close_metrics(self) -> None:
        """Ends the page that reads the store: before the store is closed. Those about health stay."""
        if self._metrics is not None:
            await self._metrics.close()

    async def close(self) -> None:
        await self.close_metrics()
        await super().close()
        if self._executor is not None:
            self._executor.shutdown()  # nothing runs there any more
