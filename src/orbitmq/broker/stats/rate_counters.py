"""Counters of what goes one way, and their windows over the last minute, hour and day.

A window is the difference of its last and first sample: minute = 7 samples 10 s apart, hour = 7 at 10 min,
day = 25 at 1 h.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
DAY_STEP_MS = 3_600_000
_MOST_SAMPLES = {MINUTE_STEP_MS: 7, HOUR_STEP_MS: 7, DAY_STEP_MS: 25}

K = TypeVar("K", bound=Hashable)


class FlowSample(NamedTuple):
    """The counters of a flow at a moment."""

    at_ms: int
    messages: int
    size_bytes: int
    took_ms: int
    calls: int


class Window(NamedTuple):
    """Figures of a flow in a window: amount, amount per second, and amount per call."""

    sum: int
    tps: float
    avgpt: float


@dataclass(slots=True)
class Flow:
    """Messages that go one way: counters since the start, and samples of them.

    There is one for each queue: the samples are lists, of which empty ones are small.
    """

    messages: int = 0
    size_bytes: int = 0
    took_ms: int = 0
    calls: int = 0
    minute: list[FlowSample] = field(default_factory=list)
    hour: list[FlowSample] = field(default_factory=list)
    day: list[FlowSample] = field(default_factory=list)

    def add(self, messages: int, size_bytes: int = 0, took_ms: int = 0) -> None:
        """Counts one call that carried so many messages."""
        self.messages += messages
        self.size_bytes += size_bytes
        self.took_ms += took_ms
        self.calls += 1

    def sample(self, series: list[FlowSample], now: int, step_ms: int) -> bool:
        """Adds a sample. True if the window sees anything move. A flow at rest keeps one sample only."""
        if not series:
            series.append(FlowSample(now - step_ms, 0, 0, 0, 0))
        elif len(series) == 1:
            series[0] = series[0]._replace(at_ms=now - step_ms)
        series.append(FlowSample(now, self.messages, self.size_bytes, self.took_ms, self.calls))
        if len(series) > _MOST_SAMPLES[step_ms]:
            del series[0]
        if series[0].calls != self.calls:
            return True
        del series[:-1]
        return False

    def window(self, series: list[FlowSample], field_name: str) -> Window:
        """A window of one counter: `messages`, `size_bytes` or `took_ms`."""
        if not series:
            return Window(0, 0.0, 0.0)
        return _between(series[0], series[-1], field_name)

    def day_until(self, now: int, field_name: str) -> Window:
        """The last day until now, and not until the last sample, which may be an hour old."""
        last = FlowSample(now, self.messages, self.size_bytes, self.took_ms, self.calls)
        since = now - DAY_STEP_MS * (_MOST_SAMPLES[DAY_STEP_MS] - 1)
        # A flow at rest keeps one sample, older than a day, of counters that are the same since.
        first = next((one for one in self.day if one.at_ms >= since), self.day[-1] if self.day else None)
        return _between(first or FlowSample(now - DAY_STEP_MS, 0, 0, 0, 0), last, field_name)


def _between(first: FlowSample, last: FlowSample, field_name: str) -> Window:
    amount: int = getattr(last, field_name) - getattr(first, field_name)
    elapsed_ms = last.at_ms - first.at_ms
    calls = last.calls - first.calls
    return Window(
        amount,
        amount * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0,
        amount / calls if calls > 0 else 0.0,
    )


class Flows(Generic[K]):
    """Flows of one kind by key. A window is sampled while something moves in it: idle flows cost nothing."""

    def __init__(self) -> None:
        self.by_key: dict[K, Flow] = {}
        self._minute: dict[K, Flow] = {}
        self._hour: dict[K, Flow] = {}
        self._day: dict[K, Flow] = {}

    def add(self, key: K, messages: int, size_bytes: int = 0, took_ms: int = 0, calls: int = 1) -> None:
        """Counts calls under `key`."""
        flow = self._minute.get(key)
        if flow is None:
            flow = self._activate(key)
        flow.messages += messages
        flow.size_bytes += size_bytes
        flow.took_ms += took_ms
        flow.calls += calls

    def sample_minute(self, now: int) -> Iterator[None]:
        for key, flow in list(self._minute.items()):
            if not flow.sample(flow.minute, now, MINUTE_STEP_MS):
                self._minute.pop(key, None)
            yield

    def sample_hour(self, now: int) -> Iterator[None]:
        for key, flow in list(self._hour.items()):
            if not flow.sample(flow.hour, now, HOUR_STEP_MS):
                self._hour.pop(key, None)
            yield

    def sample_day(self, now: int) -> Iterator[None]:
        """Samples the days of the flows that move, one at each step."""
        for key, flow in list(self._day.items()):
            if not flow.sample(flow.day, now, DAY_STEP_MS):
                self._day.pop(key, None)
            yield

    def remove(self, is_gone: Callable[[K], bool]) -> None:
        """Forgets flows whose topic or group is gone."""
        for key in [key for key in self.by_key if is_gone(key)]:
            for table in (self.by_key, self._minute, self._hour, self._day):
                table.pop(key, None)

    def _activate(self, key: K) -> Flow:
        flow = self.by_key.get(key)
        if flow is None:
            flow = self.by_key[key] = Flow()
        self._minute[key] = self._hour[key] = self._day[key] = flow
        return flow
