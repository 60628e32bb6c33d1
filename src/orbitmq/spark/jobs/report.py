"""A report to look at: one HTML file with tables and charts that needs no network and runs no script.

    report = Report("Dead letters")
    report.text("Since yesterday.")
    report.table(["topic", "messages"], [("orders", 12)])
    report.bars("Messages by topic", ["orders"], [12])
    report.write("dlq.html")

What stands in messages may be anything: every text is escaped, characters that control terminals or turn the
direction of writing are shown as what they are, and the page forbids itself scripts and the network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orbitmq import __version__
from orbitmq.extras import lacking
from orbitmq.protocol.errors import OrbitError
from orbitmq.whole_files import write_whole

if TYPE_CHECKING:
    from orbitmq.spark.jobs.charts import Point

MOST_ROWS = 1000
"""Rows of one table; what more there is is counted in a line below it."""
MOST_BARS = 40
MOST_LINES = 24
MOST_POINTS = 500
"""Of a line over time; more are thinned out."""
MOST_CHARACTERS = 400
"""Of one cell: a body may be megabytes."""

_VISIBLE = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_VISIBLE |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_VISIBLE |= dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
_VISIBLE |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD)
"""Control characters by their pictures; those that turn the direction of writing, and halves of surrogates
that no file can hold, by the sign for what cannot be shown."""


class ReportUnavailable(OrbitError):
    """The package that draws reports is not installed."""


@dataclass(slots=True)
class Cell:
    """Text of a table's cell, and whether it is a number."""

    text: str
    number: bool = False


@dataclass(slots=True)
class Part:
    """One part of the page, as its template takes it."""

    kind: str
    text: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    svg: str = ""
    note: str = ""


class Report:
    """A page that grows from top to bottom; every method but the last two gives the report back.

    Raises ReportUnavailable where jinja2 and matplotlib are not there, before a job has done its work.
    """

    def __init__(self, title: str, *, about: str = "", made_at: datetime | None = None) -> None:
        try:
            import jinja2
            import matplotlib as _  # noqa: F401
        except ModuleNotFoundError as error:
            raise ReportUnavailable(lacking("a report", error.name, "jobs")) from None
        self._jinja = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        self.title = title
        self.about = about
        self.made_at = made_at or datetime.now(UTC)
        self._parts: list[Part] = []

    def heading(self, text: str) -> Self:
        """Begins a section."""
        return self._add(Part("heading", shown(text)))

    def text(self, text: str) -> Self:
        """A paragraph."""
        return self._add(Part("text", shown(text)))

    def figures(self, values: Mapping[str, Any]) -> Self:
        """A few figures that matter most, large, by their names."""
        return self._add(
            Part("figures", columns=[shown(name) for name in values], rows=[[*map(cell, values.values())]])
        )

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "") -> Self:
        """Rows of values, of which the first thousand are shown.

        Numbers stand to the right; times are shown in UTC, and those without a zone are this machine's, as
        Spark collects them; bytes are read as UTF-8; None is a dash. Rows of Spark are sequences, so
        `frame.collect()` is welcome.
        """
        given = iter(rows)
        kept = [[cell(value) for value in row] for row in islice(given, MOST_ROWS)]
        more = sum(1 for _ in given)
        note = f"{more:,} more rows are not shown." if more else "" if kept else "Nothing."
        return self._add(Part("table", shown(caption), [shown(name) for name in columns], kept, note=note))

    def frame(self, frame: Any, *, caption: str = "", limit: int = MOST_ROWS) -> Self:
        """The first rows of a Spark DataFrame, in its order."""
        rows = frame.limit(limit + 1).collect()
        self.table(frame.columns, rows[:limit], caption=caption)
        if len(rows) > limit:
            self._parts[-1].note = "More rows are not shown."
        return self

    def bars(self, title: str, labels: Iterable[Any], values: Iterable[float | None], unit: str = "") -> Self:
        """Horizontal bars, the first on top, of which the first forty are drawn; None has no length."""
        from orbitmq.spark.jobs.charts import bar_chart

        pairs = list(zip(labels, values, strict=True))
        if not pairs:
            return self._add(Part("chart", shown(title), note="Nothing to draw."))
        kept = pairs[:MOST_BARS]
        more = len(pairs) - len(kept)
        drawn = bar_chart(
            [shown(str(label), 60) for label, _ in kept],
            [None if value is None else float(value) for _, value in kept],
            unit=shown(unit),
            name=self._name(),
        )
        note = f"{more:,} more are not drawn." if more else ""
        return self._add(Part("chart", shown(title), svg=drawn, note=note))

    def over_time(
        self,
        rows: Sequence[dict[str, Any]],
        name: Callable[[dict[str, Any]], str],
        charts: Iterable[tuple[str, str, str]],
    ) -> Self:
        """For each (title, column, unit) a chart with a line for each name, of rows that have a time `at`."""
        times = sorted({row["at"] for row in rows})
        times = times[:: -max(1, -(-len(times) // MOST_POINTS))][::-1]
        found = {(name(row), row["at"]): row for row in rows}
        for title, column, unit in charts:
            lines = {
                one: [found[one, at][column] if (one, at) in found else None for at in times]
                for one in sorted({name for name, _ in found})
            }
            self.line(title, times, lines, unit, "UTC")
        return self

    def line(
        self,
        title: str,
        x: Sequence[Point],
        series: Mapping[str, Sequence[float | None]],
        unit: str = "",
        x_unit: str = "",
    ) -> Self:
        """A line per series over the same `x`: numbers, or times as in tables.

        None leaves a gap. Of more than 24 series the largest are drawn.
        """
        from orbitmq.spark.jobs.charts import line_chart

        if not x or not series:
            return self._add(Part("chart", shown(title), note="Nothing to draw."))
        ranked = sorted(series, key=lambda name: max((v for v in series[name] if v is not None), default=0.0))
        left_out = set(ranked[:-MOST_LINES])
        kept = {shown(str(name), 60): list(values) for name, values in series.items() if name not in left_out}
        points = [utc(one) if isinstance(one, datetime) else one for one in x]
        drawn = line_chart(points, kept, unit=shown(unit), x_unit=shown(x_unit), name=self._name())
        note = f"{len(left_out):,} smaller ones are not drawn." if left_out else ""
        return self._add(Part("chart", shown(title), svg=drawn, note=note))

    def html(self) -> str:
        """The page."""
        from markupsafe import Markup

        from orbitmq.spark.jobs.report_page import PAGE

        return self._jinja.from_string(PAGE).render(
            title=shown(self.title),
            about=shown(self.about),
            parts=self._parts,
            made_at=time_text(self.made_at),
            version=__version__,
            # Drawn by matplotlib, which escapes what it writes.
            drawing=lambda part: Markup(part.svg),
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page, as a whole or not at all; makes the folder where there is none. Raises OSError."""
        target = Path(path)
        write_whole(target, self.html())
        return target

    def _add(self, part: Part) -> Self:
        self._parts.append(part)
        return self

    def _name(self) -> str:
        return f"{shown(self.title)}-{len(self._parts)}"


def shown(text: str, most: int | None = None) -> str:
    """A text as it is shown: what cannot be seen is made visible, what is too long is cut."""
    if most is not None and len(text) > most:
        text = f"{text[: most - 1]}…"
    return text.translate(_VISIBLE)


def cell(value: Any) -> Cell:
    """A value as a table shows it."""
    from orbitmq.spark.jobs.charts import NONE, figure_text

    if value is None:
        return Cell(NONE)
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, (int, float, Decimal)):
        return Cell(
            figure_text(float(value) if isinstance(value, Decimal) else value)
            if isfinite(value)
            else str(value),
            number=True,
        )
    if isinstance(value, datetime):
        return Cell(time_text(value))
    if isinstance(value, date):
        return Cell(value.isoformat())
    if isinstance(value, timedelta):
        return Cell(str(value), number=True)
    if isinstance(value, (bytes, bytearray, memoryview)):
        # Four bytes at most make a character.
        value = bytes(value[: 4 * MOST_CHARACTERS + 4]).decode(errors="replace")
    elif isinstance(value, Mapping):
        value = ", ".join(f"{key}={inner}" for key, inner in islice(value.items(), 50))
    elif isinstance(value, (list, tuple, set, frozenset)):
        value = ", ".join(str(inner) for inner in islice(value, 50))
    return Cell(shown(str(value), MOST_CHARACTERS))


def time_text(at: datetime) -> str:
    """A time in UTC, to the millisecond where it has any."""
    precise = "milliseconds" if at.microsecond else "seconds"
    return utc(at).replace(tzinfo=None).isoformat(" ", precise)


def utc(at: datetime) -> datetime:
    """The same time in UTC; without a zone it is this machine's."""
    return at.astimezone(UTC)
