"""The lake as a Delta table, too: a transaction log beside the manifests that names the same files.

Kept by the package `deltalake`, which writes the log without Spark: the jar of Delta Lake need not fit the
release of Spark. The log follows the manifests and carries the number of the one it has got to; a crash in
between is made good by the next commit, or when the lake is opened next.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from orbitmq.extras import lacking
from orbitmq.spark.errors import BadOption
from orbitmq.spark.folders import local_path
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.state import LakeState, Schema
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.read.columns import BY_NAME

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APP = "orbitmq-archive"
OLDEST = (1, 5)
"""The first release that takes removals as well."""


def check() -> None:
    """Raises BadOption where the package is not there, or does not fit."""
    try:
        import deltalake
    except ModuleNotFoundError:
        raise BadOption(lacking("a Delta table", "deltalake", "delta")) from None
    found = tuple(int(part) for part in deltalake.__version__.split(".")[:2])
    if found < OLDEST:
        raise BadOption(
            f"deltalake {deltalake.__version__} is installed, and {OLDEST[0]}.{OLDEST[1]} or later is needed"
        )


def follow(location: LakeLocation, state: LakeState) -> None:
    """Brings the Delta log to where the manifests are. Raises LakeError."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.exceptions import DeltaError

    if not state.number:
        return
    path = local_path(location.url)
    url = location.url if path is None else str(path.absolute())
    options = {name: str(value) for name, value in location.options.items()} or None
    schema = pa.schema([pa.field(name, _arrow(name)) for name, _ in _columns(state.schema)])
    try:
        if not DeltaTable.is_deltatable(url, storage_options=options):
            DeltaTable.create(
                url, schema, partition_by=["topic", "date"], storage_options=options, name="orbitmq archive"
            )
        table = DeltaTable(url, storage_options=options)
        if (table.transaction_version(APP) or 0) >= state.number:
            return
        _add_columns(table, schema)
        table.create_write_transaction(
            _changes(table, state),
            "append",
            schema,
            ["topic", "date"],
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, state.number)]),
        )
    except DeltaError as error:
        raise LakeError(f"the Delta log of {location.url} cannot be written: {error}") from error


def _add_columns(table: DeltaTable, schema: pa.Schema) -> None:
    """Gives the table the columns that the lake has got since."""
    import pyarrow as pa
    from deltalake import Schema as DeltaSchema

    present = {one.name for one in table.schema().fields}
    added = [schema.field(name) for name in schema.names if name not in present]
    if added:
        table.alter.add_columns(list(DeltaSchema.from_arrow(pa.schema(added)).fields))


def _changes(table: DeltaTable, state: LakeState) -> list[Any]:
    """Files that the log lacks, and those that it has too many."""
    import pyarrow as pa
    from deltalake.transaction import AddAction, RemoveAction

    listed = pa.table(table.get_add_actions()).select(["path"]).column(0).to_pylist()
    known = {unquote(path): path for path in listed}  # the log has them as URLs
    added = [
        AddAction(
            path,
            file.size_bytes,
            {"topic": file.topic, "date": file.date},
            file.last_store_ms,
            True,
            json.dumps({"numRecords": file.rows}),
        )
        for path, file in state.files.items()
        if path not in known
    ]
    now_ms = int(time.time() * 1000)
    removed = [RemoveAction(path, True, now_ms) for path in known.keys() - state.files.keys()]
    return [*added, *removed]


def _columns(recorded: Schema) -> Schema:
    return (*recorded, ("topic", "string"), ("date", "date"))


def _arrow(name: str) -> Any:
    import pyarrow as pa

    return pa.date32() if name == "date" else BY_NAME[name].arrow
