"""Results of commands: tables for people, JSON for programs. A command returns one of these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the key in JSON, the head in a table."""

    key: str
    head: str
    is_time: bool = False
    """The values are ms since 1970; 0 and less are no time."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A table."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    """A line below it, for people only."""

    def as_json(self) -> Any:
        """A list of objects."""
        return [dict(zip((one.key for one in self.columns), row, strict=True)) for row in self.rows]

    def print(self) -> None:
        """As a table; numbers to the right."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for index, column in enumerate(self.columns):
            numbers = not column.is_time and any(isinstance(row[index], (int, float)) for row in self.rows)
            table.add_column(column.head, justify="right" if numbers else "left", overflow="fold")
        for row in self.rows:
            cells = (_shown(value, column) for value, column in zip(row, self.columns, strict=True))
            table.add_row(*(Text(cell) for cell in cells))
        console = Console(soft_wrap=False, highlight=False)
        if not console.is_terminal:
            # A reader of a pipe wants whole lines, not the width of a screen that is not there.
            console.width = 10_000
        console.print(table)
        if self.note:
            console.print(Text(self.note))


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values of one thing."""

    values: Mapping[str, Any]
    times: frozenset[str] = frozenset()
    """Names whose values are ms since 1970."""

    def as_json(self) -> Any:
        """One object."""
        return dict(self.values)

    def print(self) -> None:
        """One line each, the values under each other."""
        width = max(map(len, self.values), default=0)
        for name, value in self.values.items():
            click.echo(f"{name:<{width}}  {_shown(value, Column(name, name, name in self.times))}")


@dataclass(frozen=True, slots=True)
class Done:
    """The effect of a change, in one line."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> Any:
        """One object, with the line."""
        return {"done": self.text, **self.values}

    def print(self) -> None:
        """The line."""
        click.echo(self.text)


Result = Rows | Facts | Done


def show(result: Result, as_json: bool) -> None:
    """Prints a result."""
    if as_json:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False, indent=2))
    else:
        result.print()


def time_text(at_ms: int) -> str:
    """Local time to the millisecond; `-` for none."""
    if at_ms <= 0:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000).isoformat(" ", "milliseconds")


def _shown(value: Any, column: Column) -> str:
    if column.is_time:
        return time_text(int(value or 0))
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, (list, tuple, set)):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "-"
    return str(value)
