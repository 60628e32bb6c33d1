"""Tables of Spark's catalog: `CREATE TABLE t USING orbitmq OPTIONS (...)`.

Spark passes the options of a table to a Python source once, when the table is created and has no columns of
its own. A SELECT or an INSERT comes with those of its own WITH clause, and with the table's schema. So the
options are kept there, in the metadata of its columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from orbitmq.spark.errors import BadOption
from orbitmq.spark.offline.options import OFFLINE_OPTIONS
from orbitmq.spark.read.columns import arrow_schema
from orbitmq.spark.read.option_rows import OPTIONS
from orbitmq.spark.read.options import columns_of
from orbitmq.spark.read.values import unknown
from orbitmq.spark.sink.options import OPTIONS as WRITE_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

METADATA = "orbitmq.options"
_SPARKS_OWN = frozenset(
    {"provider", "owner", "location", "comment", "external", "is_managed_location", "collation", "table_type"}
)
"""Properties that Spark's catalog keeps beside the options."""
_WHERE = frozenset({"namesrv", "subscribe", "topic", "subscribepattern", "assign", "path", "paths"})
_SECRET = ("accessKey", "secretKey", "securityToken", "storageOptions")
_READ = {row.name.lower(): row.name for row in OPTIONS}
_STORED = {row.name.lower(): row.name for row in OFFLINE_OPTIONS}
_WRITE = {row.name.lower(): row.name for row in WRITE_OPTIONS}
_ALL = _READ | _STORED | _WRITE

WITHOUT_OPTIONS = (
    "Of a table with columns of its own, Spark passes no options to a Python source: create it without "
    "columns, and choose them with the option columns; or say the options in each statement, "
    "SELECT ... FROM t WITH (subscribe 'TOPIC')"
)


def options_of_new(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being created; None where it is no table, but a read or a write.

    Raises BadOption for an unknown one, and for a secret, which anybody who sees the table would see.
    """
    lower = _lower(given)
    if "provider" not in lower:
        return None
    options: dict[str, str] = {}
    for key, value in lower.items():
        # Each option comes twice, once behind this word.
        if key in _SPARKS_OWN or key.startswith("option."):
            continue
        name = _ALL.get(key)
        if name is None:
            raise unknown(key, _ALL.values())
        if name in _SECRET:
            raise BadOption(
                f"{name} would stand in Spark's catalog for all to read: leave it out of the table, and say "
                f"it in the statement, SELECT ... FROM t WITH ({name} '...'), or make a temporary view"
            )
        options[name] = value
    return options


def schema_with(columns: pa.Schema, options: Mapping[str, str]) -> StructType:
    """The columns, with the options in the metadata of each."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    metadata = {METADATA: json.dumps(dict(options), sort_keys=True)}
    # Not from the DDL: where Spark asks a source for its schema, there is no JVM that could read it.
    fields = from_arrow_schema(columns, prefer_timestamp_ntz=False).fields
    return StructType([StructField(field.name, field.dataType, True, metadata) for field in fields])


def schema_of_new(given: Mapping[str, str]) -> StructType | None:
    """The schema of a table that is being created; None where it is no table. Raises BadOption."""
    options = options_of_new(given)
    if options is None:
        return None
    if "path" in options:
        from orbitmq.spark.offline.columns import arrow_schema as stored_schema
        from orbitmq.spark.offline.options import OfflineOptions

        return schema_with(stored_schema(OfflineOptions.parse(options).columns), options)
    read = {key: value for key, value in options.items() if key.lower() in _READ}
    return schema_with(arrow_schema(columns_of(read)), options)


def read_options(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Options of a read: the statement's, and under them those of the table. Raises BadOption."""
    table = _of_table(schema)
    if table is None and not given:
        raise BadOption(f'no topic given: .option("subscribe", "TOPIC"). {WITHOUT_OPTIONS}')
    if table is None or _on_its_own(given):
        return dict(given)
    merged = table | _lower(given)
    known = _STORED if "path" in merged else _READ
    return {key: value for key, value in merged.items() if key in known or key not in table}


def write_options(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Options of a write. A table of one topic is written to that topic. Raises BadOption."""
    table = _of_table(schema)
    if table is None or _on_its_own(given):
        return dict(given)
    if "path" in table:
        raise BadOption("this table is of a store's files, which are read only: one to write to has a topic")
    table.pop("tags", None)  # a filter, and no message's tag
    topic = table.get("subscribe", "")
    if topic and "," not in topic:
        table["topic"] = topic
    merged = table | _lower(given)
    return {key: value for key, value in merged.items() if key in _WRITE or key not in table}


def _on_its_own(given: Mapping[str, str]) -> bool:
    """True if a read or write names its own place: its columns come from another table then."""
    return any(name in _WHERE for name in _lower(given))


def _of_table(schema: StructType) -> dict[str, str] | None:
    """The common origin of all columns; None if they have several."""
    found = {(field.metadata or {}).get(METADATA) for field in schema.fields}
    text = found.pop() if len(found) == 1 else None
    return None if text is None else _lower(json.loads(text))


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}
