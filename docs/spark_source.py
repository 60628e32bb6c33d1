"""The tables of the Spark source's page, from the rows that the code reads."""

from __future__ import annotations

from orbitmq.spark.read.columns import COLUMNS
from orbitmq.spark.read.option_rows import OPTIONS


def options() -> str:
    """Every option of reading a topic."""
    lines = ["| option | only | default | meaning |", "| --- | --- | --- | --- |"]
    for row in OPTIONS:
        only = f" {row.only}" if row.only else ""
        lines.append(f"| `{row.name}` |{only} | {_cell(row.default)} | {_cell(row.about)} |")
    return "\n".join(lines) + "\n"


def columns() -> str:
    """Every column of a message."""
    lines = ["| column | type | holds |", "| --- | --- | --- |"]
    lines += [f"| `{column.name}` | {column.ddl} | {_cell(column.about)} |" for column in COLUMNS]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
