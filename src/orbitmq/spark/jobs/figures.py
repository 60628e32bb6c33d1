"""Figures of samples, by SQL: DuckDB reads a folder of any size, and needs no Spark to start."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb

from orbitmq.spark.jobs.failures import JobFailed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

Row = dict[str, Any]
"""By names of columns; times have a zone."""


class Samples:
    """The table `samples` of a database that lasts as long as the block.

    What does not fit into memory is on the disk meanwhile. Raises JobFailed for files that cannot be read.
    """

    def __init__(self, samples: pa.Table | pyarrow.dataset.Dataset) -> None:
        spilled = Path(tempfile.gettempdir(), "orbitmq-samples")
        self._database = duckdb.connect(
            config={"temp_directory": str(spilled), "autoinstall_known_extensions": "false"}
        )
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.register("samples", samples)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def keep(self, table: str, query: str, **values: Any) -> None:
        """Makes a table of a query, for those that follow."""
        self._ask(f"CREATE OR REPLACE TEMP TABLE {table} AS {query}", values)

    def rows(self, query: str, **values: Any) -> list[Row]:
        """The rows of a query, in which `$name` is a value."""
        found: list[Row] = self._ask(query, values).fetch_arrow_table().to_pylist()
        return found

    def _ask(self, query: str, values: Row) -> duckdb.DuckDBPyConnection:
        try:
            return self._database.execute(query, values)
        except (duckdb.Error, OSError) as error:
            line = str(error).splitlines()[0].rpartition("Invalid: ")[2]
            raise JobFailed(f"samples cannot be read: {line}") from None
