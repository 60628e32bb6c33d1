"""An Iceberg table in place of a lake's manifests: each commit is a snapshot that says what the table holds.

The summary of a snapshot has the offsets of all queues. The catalog puts files and summary in place in one
step, so a message is in the table once, wherever a writer dies. Offsets are those of the newest snapshot that
has some, on the line of the current one: other writers (compaction, deletes) keep none, and a table that is
rolled back is archived again from there. A table whose old snapshots were expired has them in its properties.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from orbitmq.extras import lacking
from orbitmq.spark.errors import BadOption
from orbitmq.spark.lake.errors import LakeBusy, LakeDamaged, LakeError
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, Schema
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import ParquetForm

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table import Table

STATE = "orbitmq.offsets"
"""Of a snapshot's summary, and of the table: what the table holds, as JSON."""
RUN = "orbitmq.run"
"""Of a snapshot's summary: the run of the archive that wrote it."""
WITHOUT_BOUNDS = {
    f"write.metadata.metrics.column.{name}": "none" for name in ("body", "properties.key", "properties.value")
}
"""Smallest and largest bodies skip no files."""
NAMESPACE = "default"
"""The namespace of a table that names none."""
DAY = "storeTimestamp_day"
TRIES = 20
"""Commits of others that one commit of ours may meet."""

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class IcebergLocation:
    """A table by its catalog."""

    catalog: str
    table: tuple[str, ...]
    """Namespaces and name."""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Properties of the catalog, before those of PyIceberg's configuration."""
    storage: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Options of fsspec, with which the workers write files."""

    @classmethod
    def parse(cls, text: str, options: Mapping[str, str], storage: Mapping[str, str]) -> IcebergLocation:
        """The location of `CATALOG.TABLE` or `CATALOG.NAMESPACE.TABLE`. Raises BadOption."""
        catalog, *table = text.split(".")
        if not catalog or not table or not all(table):
            raise BadOption(f"{text} names no table: expected CATALOG.TABLE or CATALOG.NAMESPACE.TABLE")
        return cls(catalog, tuple(table) if len(table) > 1 else (NAMESPACE, *table), options, storage)

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.table))

    def connect(self) -> Catalog:
        """The catalog. Raises BadOption where PyIceberg is missing, or knows no such catalog."""
        try:
            from pyiceberg.catalog import load_catalog
        except ModuleNotFoundError:
            raise BadOption(lacking("an Iceberg table", "pyiceberg", "iceberg")) from None
        try:
            return load_catalog(self.catalog, **self.options)
        except Exception as error:  # of the catalog's own driver
            raise BadOption(
                f"catalog {self.catalog} cannot be opened: {error} (catalogs are in ~/.pyiceberg.yaml, in "
                "variables PYICEBERG_CATALOG__NAME__..., or in --catalog-option)"
            ) from error


def load(location: IcebergLocation) -> LakeState:
    """The present state of a table, without its files; empty if it does not exist. Raises LakeError."""
    table = _find(location.connect(), location)
    return LakeState() if table is None else _state(table, location)


@dataclass
class IcebergTable:
    """A table that is open for writing, in the form of a `Lake`.

    Another archive of the same table is noticed at a commit, and the later one fails without a trace.
    """

    source: IcebergLocation
    state: LakeState
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _catalog: Any = None
    _table: Any = None

    @classmethod
    @contextlib.contextmanager
    def open(cls, location: IcebergLocation) -> Iterator[IcebergTable]:
        """Raises BadOption, LakeError."""
        catalog = location.connect()
        table = _find(catalog, location)
        state = LakeState() if table is None else _state(table, location)
        opened = cls(location, state, _catalog=catalog, _table=table)
        try:
            yield opened
        finally:
            opened._remove_unused()

    @property
    def location(self) -> LakeLocation:
        """The folder of the table, where the workers write."""
        return LakeLocation(self._table.location(), dict(self.source.storage))

    @property
    def staging(self) -> str:
        """The folder of this run's files, where they stay."""
        return f"data/orbitmq-{self.run}"

    def form(self, form: ParquetForm) -> ParquetForm:
        """The form of files with the columns of the table, by their ids."""
        return replace(form, field_ids=_ids(self._table.schema()))

    def prepare(self, columns: Schema) -> None:
        """Makes the table if it does not exist, and adds columns that it lacks. Raises LakeError."""
        wanted = (("topic", "string"), *columns)
        with self._errors():
            if self._table is None:
                self._table = self._create(wanted)
            present = {one.name for one in self._table.schema().fields}
            added = [(name, kind) for name, kind in wanted if name not in present]
            if added:
                with self._table.update_schema() as update:
                    for name, kind in added:
                        update.add_column(name, _type(kind))

    def append(
        self,
        ranges: Sequence[HeldRange],
        files: Sequence[LakeFile],
        *,
        schema: Schema | None = None,
        sources: dict[str, int] | None = None,
    ) -> None:
        """Commits messages: from here on the table holds them. Raises LakeBusy, LakeError."""
        from orbitmq.spark.lake.state import Manifest

        before = self.state
        manifest = Manifest(
            before.number + 1,
            "append",
            self.run,
            0,
            ranges=tuple(ranges),
            schema=schema,
            sources=sources or {},
        )
        after = before.after(manifest)
        self.location.open().sync({self.staging})
        with self._errors():
            for _ in range(TRIES):
                if self._commit(files, after):
                    self.state = after
                    return
                if _state(self._table, self.source).number != before.number:
                    raise LakeBusy(
                        f"another job has archived to {self.source} meanwhile: nothing was added by this one"
                    )
        raise LakeError(f"{self.source} is changed by others all the time: nothing was added")

    def _commit(self, files: Sequence[LakeFile], after: LakeState) -> bool:
        """One attempt; False if somebody else has committed first."""
        from pyiceberg.exceptions import CommitFailedException

        table = self._table
        # PyIceberg would repeat an append after that of another archive, which may be of the same messages.
        own = {**table.metadata.properties, "commit.retry.num-retries": "0"}
        table.metadata = table.metadata.model_copy(update={"properties": own})
        text = _text(after)
        transaction = table.transaction()
        transaction.set_properties({STATE: text})
        producer = transaction.update_snapshot(snapshot_properties={STATE: text, RUN: self.run}).fast_append()
        with producer as append:
            for file in files:
                append.append_data_file(self._data_file(file))
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            table.refresh()
            return False
        except Exception:
            # The catalog may have done it all the same, and only its answer was lost.
            table.refresh()
            done = _state(table, self.source)
            if done.number == after.number and done.held == after.held and self._is_ours():
                return True
            raise
        return True

    def _is_ours(self) -> bool:
        snapshot = _snapshot_with_state(self._table)
        return snapshot is not None and snapshot.summary[RUN] == self.run

    def _data_file(self, file: LakeFile) -> Any:
        import pyarrow.parquet as pq
        from pyiceberg.io.pyarrow import (
            compute_statistics_plan,
            data_file_statistics_from_parquet_metadata,
            parquet_path_to_id_mapping,
        )
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        schema = self._table.schema()
        with self.location.open().open_read(file.staged) as stream:
            metadata = pq.read_metadata(stream)
        statistics = data_file_statistics_from_parquet_metadata(
            metadata,
            stats_columns=compute_statistics_plan(schema, self._table.metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._table.location().rstrip('/')}/{file.staged}",
            file_format=FileFormat.PARQUET,
            partition=Record((date.fromisoformat(file.date) - _EPOCH).days),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=self._table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _create(self, columns: Schema) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import Schema as IcebergSchema
        from pyiceberg.transforms import DayTransform
        from pyiceberg.types import MapType, NestedField, StringType

        fields = []
        nested = len(columns)
        for number, (name, kind) in enumerate(columns, 1):
            type_ = _type(kind)
            if kind.startswith("map"):
                type_ = MapType(nested + 1, StringType(), nested + 2, StringType(), value_required=False)
                nested += 2
            fields.append(NestedField(number, name, type_, required=False))
        day_of = next(one.field_id for one in fields if one.name == "storeTimestamp")
        spec = PartitionSpec(PartitionField(day_of, 1000, DayTransform(), DAY))
        self._catalog.create_namespace_if_not_exists(self.source.table[:-1])
        try:
            return self._catalog.create_table(  # type: ignore[no-any-return]
                self.source.table,
                IcebergSchema(*fields),
                partition_spec=spec,
                properties={"format-version": "2", STATE: _text(LakeState()), **WITHOUT_BOUNDS},
            )
        except TableAlreadyExistsError:
            raise LakeBusy(f"another job has made {self.source} meanwhile: start this one again") from None

    def _remove_unused(self) -> None:
        """Removes this run's files that no snapshot names. Those of a run that was killed stay as orphans."""
        if self._table is None:
            return
        with contextlib.suppress(Exception):  # they cost space, and no message
            storage, folder = self.location.open(), self.staging
            self._table.refresh()
            root = f"{self._table.location().rstrip('/')}/"
            named = {task.file.file_path.removeprefix(root) for task in self._table.scan().plan_files()}
            for name in storage.names(folder):
                if f"{folder}/{name}" not in named:
                    storage.remove(f"{folder}/{name}")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (LakeError, BadOption):
            raise
        except Exception as error:  # of the catalog's own driver, or of its storage
            raise LakeError(f"the Iceberg table {self.source} cannot be written: {error}") from error


def _find(catalog: Catalog, location: IcebergLocation) -> Table | None:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(location.table)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:  # of the catalog's own driver
        raise LakeError(f"the Iceberg table {location} cannot be read: {error}") from error


def _snapshot_with_state(table: Table) -> Any:
    """The newest snapshot with offsets, on the line that ends with the current one; None if none has some."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if snapshot.summary is not None and STATE in snapshot.summary.additional_properties:
            return snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None


def _state(table: Table, location: IcebergLocation) -> LakeState:
    """The content of a table. Raises LakeError for one that the archive has not made."""
    snapshot = _snapshot_with_state(table)
    text = table.properties.get(STATE) if snapshot is None else snapshot.summary[STATE]
    if snapshot is None and table.current_snapshot() is None and text is not None:
        # Rolled back to nothing, or new.
        return LakeState(schema=_schema_of(table))
    if text is None:
        raise LakeError(
            f"{location} was not made by an archive: it has no {STATE}. Name a table that does not exist yet"
        )
    try:
        state = LakeState.from_json({**json.loads(text), "files": []})
    except (ValueError, TypeError) as error:
        raise LakeDamaged(f"{STATE} of {location} is damaged: {error}") from None
    if "day" not in {str(one.transform) for one in table.spec().fields}:
        raise LakeError(f"{location} is not partitioned by day any more: archive to a new table")
    return replace(state, schema=_schema_of(table))


def _schema_of(table: Table) -> Schema:
    from orbitmq.spark.read.columns import BY_NAME

    names = [one.name for one in table.schema().fields if one.name != "topic"]
    return tuple((name, BY_NAME[name].ddl) for name in names if name in BY_NAME)


def _text(state: LakeState) -> str:
    values = replace(state, files={}).to_json()
    del values["files"]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _ids(schema: IcebergSchema) -> dict[str, int]:
    """Ids of fields by their names: `properties`, `properties.key`."""
    return {name: schema.find_field(name).field_id for name in schema.column_names}


def _type(kind: str) -> Any:
    from pyiceberg import types

    return {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "timestamp": types.TimestamptzType(),
        # The ids of a new map are given by the table.
        "map<string,string>": types.MapType(-1, types.StringType(), -2, types.StringType(), False),
    }[kind]
