"""The tables of the Spark sink's page, from the rows that the code reads."""

from __future__ import annotations

from orbitmq.spark.sink.options import OPTIONS
from orbitmq.spark.sink.shape import INPUT_COLUMNS


def options() -> str:
    """Every option of writing to topics."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{row.name}` | {_cell(row.default)} | {_cell(row.about)} |" for row in OPTIONS]
    return "\n".join(lines) + "\n"


def columns() -> str:
    """Every column that becomes a part of a message."""
    lines = ["| column | type | becomes |", "| --- | --- | --- |"]
    lines += [
        f"| `{column.name}` | {_cell(' or '.join(column.types))} | {_cell(column.about)} |"
        for column in INPUT_COLUMNS
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
