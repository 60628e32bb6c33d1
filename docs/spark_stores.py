"""The tables of the page on stores read offline, from the rows that the code reads."""

from __future__ import annotations

from orbitmq.spark.offline.columns import OFFLINE_COLUMNS
from orbitmq.spark.offline.options import OFFLINE_OPTIONS
from orbitmq.spark.read.columns import COLUMNS


def options() -> str:
    """Every option of reading stores."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{row.name}` | {_cell(row.default)} | {_cell(row.about)} |" for row in OFFLINE_OPTIONS]
    return "\n".join(lines) + "\n"


def columns() -> str:
    """The columns that topics read through brokers do not have."""
    lines = ["| column | type | holds |", "| --- | --- | --- |"]
    lines += [
        f"| `{column.name}` | {_cell(column.ddl)} | {_cell(column.about)} |"
        for column in OFFLINE_COLUMNS
        if column not in COLUMNS
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
