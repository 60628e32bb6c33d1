"""Charts as SVG text, to stand inside a page: drawn by matplotlib, without a display and without its pyplot.

Text stays text in the SVG, so that it can be found, copied and read aloud. It is never read as a formula:
names of topics may hold `$`.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, FuncFormatter

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#B8A800")
"""Of Okabe and Ito: told apart by people who see fewer colours, too."""
DASHES = ("-", "--", ":")
NONE = "\u2013"
"""Text in the place of a missing value."""

Point = float | int | datetime

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "path.simplify": True,
}


def bar_chart(labels: Sequence[str], values: Sequence[float | None], *, unit: str, name: str) -> str:
    """Horizontal bars, the first on top, each with its figure. `name` tells charts of a page apart."""
    heights = [0.0 if value is None or not math.isfinite(value) else float(value) for value in values]
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure, axes = _axes(0.5 + 0.27 * max(2, len(labels)))
        places = range(len(labels))
        bars = axes.barh(places, heights, color=COLOURS[0], height=0.7)
        axes.bar_label(
            bars, labels=[NONE if v is None else figure_text(v) for v in values], padding=3, color="#333333"
        )
        axes.set_yticks(places, list(labels))
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.12)
        axes.xaxis.set_major_formatter(_ticks())
        axes.set_xlabel(unit)
        return _svg(figure)


def line_chart(
    x: Sequence[Point], series: Mapping[str, Sequence[float | None]], *, unit: str, x_unit: str, name: str
) -> str:
    """One line per series over `x`, which is numbers or times; None leaves a gap."""
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure, axes = _axes(3.0)
        for index, (label, values) in enumerate(series.items()):
            heights = [math.nan if value is None else float(value) for value in values]
            axes.plot(
                x,  # type: ignore[arg-type] # it takes times as well
                heights,
                color=COLOURS[index % len(COLOURS)],
                linestyle=DASHES[index // len(COLOURS) % len(DASHES)],
                linewidth=1.6,
                marker="o" if len(x) <= 40 else None,
                markersize=3,
                # A label that begins with an underscore would not be shown.
                label=f"\u200b{label}" if label.startswith("_") else label,
            )
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.yaxis.set_major_formatter(_ticks())
        axes.set_ylabel(unit)
        axes.set_xlabel(x_unit)
        if x and isinstance(x[0], datetime):
            locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        if len(series) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0.0)
        return _svg(figure)


def figure_text(value: float) -> str:
    """A figure as people read it: thousands apart, four digits behind small ones at most."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _axes(height_inches: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.2, height_inches))
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def _ticks() -> FuncFormatter:
    engineering = EngFormatter(sep="")

    def text(value: float, _: int | None = None) -> str:
        return engineering(value) if abs(value) >= 10_000 else f"{value:.6g}"

    return FuncFormatter(text)


def _svg(figure: Figure) -> str:
    for text in figure.findobj(Text):
        _no_formula(text)
    written = io.StringIO()
    with warnings.catch_warnings():
        # Texts are drawn by whoever shows the page: its fonts count, not those that measure here.
        warnings.filterwarnings("ignore", r"Glyph \d+ ")
        figure.savefig(
            written,
            format="svg",
            bbox_inches="tight",
            pad_inches=0.08,
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    drawn = written.getvalue()
    return drawn[drawn.index("<svg") :]


def _no_formula(text: Any) -> None:
    text.set_parse_math(False)
