"""Results of commands: tables for people, JSON for programs. A command returns one of these."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from orbitmq.admin.results import values_of
from orbitmq.terminal import escaped, escaped_json, escaped_lines


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the key in JSON, the head in a table."""

    key: str
    head: str
    is_time: bool = False
    """The values are ms since 1970; 0 and less are no time."""


def columns(names: str, *, times: str = "", **heads: str) -> list[Column]:
    """Columns by their names in JSON, with blanks between.

    A head is given by the column's name; without one it is the name in words. `times` are ms since 1970.
    """
    of_times = times.split()
    return [Column(name, heads.get(name) or _in_words(name), name in of_times) for name in names.split()]


def _in_words(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f" {found[0].lower()}", name).capitalize()


@dataclass(frozen=True, slots=True)
class Rows:
    """A table."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    """A line below it, for people only."""

    @classmethod
    def of(cls, columns: Sequence[Column], results: Sequence[Any], note: str = "", **paths: str) -> Rows:
        """A row for each result of `admin`, with its values that are named as the columns.

        For columns with other names `paths` has the attribute, with dots between attributes of attributes.
        """
        if not results:
            return cls(columns, [], note)
        kind: Any = type(results[0])
        known = values_of(kind)
        wanted = [paths.get(one.key) or known[one.key].path for one in columns]
        return cls(columns, [[attrgetter(path)(one) for path in wanted] for one in results], note)

    @classmethod
    def picked(cls, columns: Sequence[Column], found: Iterable[Any], note: str = "") -> Rows:
        """A row for each mapping, or row of Spark's, with its values that are named as the columns."""
        return cls(columns, [[_in_ms(one[column.key]) for column in columns] for one in found], note)

    def as_json(self) -> Any:
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
            console.print(Text(escaped_lines(self.note)))


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values of one thing."""

    values: Mapping[str, Any]
    times: frozenset[str] = frozenset()
    """Names whose values are ms since 1970."""

    def as_json(self) -> Any:
        return dict(self.values)

    def print(self) -> None:
        """One line each, the values under each other."""
        width = max(map(len, self.values), default=0)
        for name, value in self.values.items():
            print(f"{escaped(name):<{width}}  {_shown(value, Column(name, name, name in self.times))}")


@dataclass(frozen=True, slots=True)
class Done:
    """The effect of a change, in one line."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> Any:
        return {"done": self.text, **self.values}

    def print(self) -> None:
        print(escaped_lines(self.text))


@dataclass(frozen=True, slots=True)
class Item:
    """One of several things that take sentences to say: a head, lines below it, and what to do."""

    head: str
    lines: Sequence[str]
    advice: str


@dataclass(frozen=True, slots=True)
class Items:
    """Numbered items, readable on a narrow screen."""

    items: Sequence[Item]
    values: Sequence[Mapping[str, Any]]
    """The same for programs."""
    note: str = ""

    def as_json(self) -> Any:
        return [dict(one) for one in self.values]

    def print(self) -> None:
        """Wrapped at the width of the terminal; whole lines for a pipe."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000

        def say(text: str, first: str, rest: str) -> None:
            print(
                textwrap.fill(
                    escaped(text),
                    max(40, width),
                    initial_indent=first,
                    subsequent_indent=rest,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )

        for number, item in enumerate(self.items, start=1):
            mark = f"{number}. "
            rest = " " * len(mark)
            say(item.head, mark, rest)
            for line in item.lines:
                say(line, f"{rest}- ", f"{rest}  ")
            if item.advice:
                say(item.advice, f"{rest}> ", f"{rest}  ")
        if self.note:
            print(escaped_lines(self.note))


Result = Rows | Facts | Done | Items


def show(result: Result, as_json: bool) -> None:
    """Prints a result."""
    if as_json:
        for line in json.dumps(result.as_json(), ensure_ascii=False, indent=2).split("\n"):
            print(escaped_json(line))
    else:
        result.print()


def time_text(at_ms: int) -> str:
    """Local time to the millisecond; `-` for none."""
    if at_ms <= 0:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000).isoformat(" ", "milliseconds")


def _in_ms(value: Any) -> Any:
    return int(value.timestamp() * 1000) if isinstance(value, datetime) else value


def _shown(value: Any, column: Column) -> str:
    return time_text(int(value or 0)) if column.is_time else escaped(_text(value))


def _text(value: Any) -> str:
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
