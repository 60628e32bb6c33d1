"""A scrape: the samples are taken on the loop in slices, and written down in a thread.

Values that a sample needs of the disk (the age of the first message that a group has not handled) are read in
the thread as well, and kept until the next scrape, for a group that stands still asks the same again.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus

from orbitmq import __version__
from orbitmq.broker.metrics import AgeOf, Position, Sample
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.stats.metric_families import FAMILIES
from orbitmq.broker.stats.options import parse_labels
from orbitmq.server.metrics.exposition import (
    OPEN_METRICS_TYPE,
    TEXT_TYPE,
    Exposition,
    let_go,
    wants_open_metrics,
)
from orbitmq.server.metrics.http import HttpRequest, HttpResponse
from orbitmq.server.metrics.process_metrics import process_samples
from orbitmq.server.turn.latency import RpcLatency
from orbitmq.server.turn.turn import Turns
from orbitmq.store import MessageStore

SLICE_SECONDS = 0.002
"""For how long samples are taken at once."""
SAMPLES_PER_LOOK = 64
"""Samples after which the clock is looked at."""
GZIP_LEVEL = 1

Place = tuple[int, int]
"""Physical offset and size of a record."""


@dataclass(slots=True)
class Scrape:
    """Findings of one scrape, before they are written down."""

    now: int
    found: list[Sample]
    places: dict[Position, Place]
    """Places of the messages whose age is wanted."""


class _Slices:
    """The slices in which a scrape has the loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """True if it is time for others."""
        return time.perf_counter() - self._began > SLICE_SECONDS

    def note(self) -> None:
        metrics = self._metrics
        metrics.longest_slice_ms = max(metrics.longest_slice_ms, (time.perf_counter() - self._began) * 1000)

    async def next(self) -> None:
        """Lets others have their turn."""
        self.note()
        await asyncio.sleep(0)
        self._began = time.perf_counter()


@dataclass(eq=False, repr=False)
class Metrics:
    """Answers scrapes of one broker; those that come together get the same answer.

    `samples(now)` are those of its rules.
    """

    _rules_samples: Callable[[int], Iterator[Sample | None]]
    _store: MessageStore
    _turns: Turns
    _latency: RpcLatency
    _now: Callable[[], int]
    _executor: Executor
    _settings: BrokerSettings

    def __post_init__(self) -> None:
        self._stored_ms: dict[Position, int] = {}
        self._lock = asyncio.Lock()
        self._is_closed = False
        self.longest_slice_ms = 0.0
        """The longest time for which a scrape has held the loop since the start."""

    async def page(self, request: HttpRequest) -> HttpResponse:
        """The page `/metrics`, in the form that the request prefers."""
        open_metrics = wants_open_metrics(request.headers.get("accept", ""))
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        async with self._lock:
            if self._is_closed:
                return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, b"the broker stops\n")
            scrape = await self._sample()
            loop = asyncio.get_running_loop()
            body = await loop.run_in_executor(self._executor, self._written, scrape, open_metrics, zipped)
        headers = {"Content-Encoding": "gzip"} if zipped else {}
        return HttpResponse(HTTPStatus.OK, body, OPEN_METRICS_TYPE if open_metrics else TEXT_TYPE, headers)

    async def close(self) -> None:
        """Waits for the scrape that runs; later ones are refused. The store may be closed behind it."""
        self._is_closed = True
        async with self._lock:
            pass

    async def _sample(self) -> Scrape:
        scrape = Scrape(self._now(), [], {})
        off = {name for name, family in FAMILIES.items() if not family.switch(self._settings)}
        slices = _Slices(self)
        for count, sample in enumerate(self._samples(scrape.now)):
            if sample is not None and sample.family not in off:
                scrape.found.append(sample)
                if isinstance(sample.value, AgeOf):
                    for position in sample.value.positions:
                        # A look at an old place of a queue may have to open its file.
                        if self._place(position, scrape) and slices.is_over:
                            await slices.next()
            if (sample is None or count % SAMPLES_PER_LOOK == 0) and slices.is_over:
                await slices.next()
        slices.note()
        return scrape

    def _samples(self, now: int) -> Iterator[Sample | None]:
        yield Sample("orbitmq_build_info", (__version__,), 1)
        yield Sample("orbitmq_connections", (), len(self._turns.listener.connections))
        yield Sample("orbitmq_held_requests", (), self._turns.waits.count)
        yield from self._rules_samples(now)
        yield from self._latency.samples()
        yield from process_samples()

    def _place(self, position: Position, scrape: Scrape) -> bool:
        """Looks for the place of a message, unless that was done. True if it had to."""
        if position in self._stored_ms or position in scrape.places:
            return False
        unit = self._store.physical_offset_of(*position)
        if unit is not None:
            scrape.places[position] = (unit[0], unit[1])
        return True

    # In the thread.

    def _written(self, scrape: Scrape, open_metrics: bool, zipped: bool) -> bytes:
        self._look_up_times(scrape)
        settings = self._settings
        exposition = Exposition(
            common_labels(settings, settings.broker_cluster_name, settings.broker_name),
            settings.metrics_otel_cardinality_limit,
        )
        for sample in scrape.found:
            value = sample.value
            if isinstance(value, AgeOf):
                value = self._age(value, scrape.now)
            exposition.add(sample.family, sample.labels, value)
        let_go(scrape.found)
        text = exposition.text(open_metrics=open_metrics)
        return gzip.compress(text, GZIP_LEVEL) if zipped else text

    def _look_up_times(self, scrape: Scrape) -> None:
        wanted = {
            position
            for sample in scrape.found
            if isinstance(sample.value, AgeOf)
            for position in sample.value.positions
        }
        known = {position: at for position, at in self._stored_ms.items() if position in wanted}
        store = self._store
        for position, (physical_offset, size) in scrape.places.items():
            stored = store.lookup.store_time_at(physical_offset, size)
            if stored > 0:
                known[position] = stored
        self._stored_ms = known

    def _age(self, value: AgeOf, now: int) -> float:
        stored = [self._stored_ms[one] for one in value.positions if one in self._stored_ms]
        return max(0, now - min(stored)) / value.unit if stored else 0.0


def common_labels(settings: BrokerSettings, cluster: str, name: str) -> dict[str, str]:
    """The labels that every sample has: those of metricsLabel (`a:b,c:d`), and the names of the cluster and
    the broker.
    """
    labels = dict(parse_labels(settings.metrics_label))
    if settings.metrics_in_delta:
        labels["aggregation"] = "delta"
    return {**labels, "cluster": cluster, "node_id": name, "node_type": "broker"}
