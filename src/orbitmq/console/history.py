"""Figures over time in bounded memory: a ring of points, each a time and one number per series."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

DAY_SECONDS = 24 * 3600
MOST_POINTS = 8640
"""24 h with a point every 10 s."""


class History:
    """The last points of some series. A number that is not known is NaN."""

    def __init__(self, names: Sequence[str], size: int = MOST_POINTS) -> None:
        self.names = tuple(names)
        self._size = size
        self._times = array("d")
        self._series = {name: array("d") for name in self.names}
        self._next = 0

    def add(self, at_seconds: float, values: Mapping[str, float | None]) -> None:
        """Adds a point; the oldest goes where there is no room."""
        row = [at_seconds, *(_number(values.get(name)) for name in self.names)]
        columns = [self._times, *self._series.values()]
        if len(self._times) < self._size:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
            return
        for column, value in zip(columns, row, strict=True):
            column[self._next] = value
        self._next = (self._next + 1) % self._size

    def since(
        self, from_seconds: float, most: int = 720
    ) -> tuple[list[float], dict[str, list[float | None]]]:
        """Times and series from a time on, thinned to `most` points at most: each is the largest of its span.

        The largest, for a peak that a chart leaves out is the one that somebody looks for.
        """
        order = [*range(self._next, len(self._times)), *range(self._next)]
        order = [index for index in order if self._times[index] >= from_seconds]
        step = max(1, -(-len(order) // most))
        spans = [order[start : start + step] for start in range(0, len(order), step)]
        times = [self._times[span[-1]] for span in spans]
        series = {name: [_largest(column, span) for span in spans] for name, column in self._series.items()}
        return times, series


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _largest(column: array[float], span: Sequence[int]) -> float | None:
    known = [column[index] for index in span if column[index] == column[index]]
    return max(known) if known else None
