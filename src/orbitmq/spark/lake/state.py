"""State of a lake: offsets and files, from its manifests. Pure: values and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from orbitmq.spark.lake.errors import LakeDamaged, SchemaMismatch

VERSION = 1

QueueName = tuple[str, str]
"""Topic, and `broker|queueId`."""
Held = tuple[int, int, int]
"""Queue offsets from (inclusive) to (exclusive), and the messages among them: offsets may lack messages."""
Schema = tuple[tuple[str, str], ...]
"""Names and Spark types of columns."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One Parquet file."""

    path: str
    topic: str
    date: str
    rows: int
    size_bytes: int
    first_store_ms: int
    last_store_ms: int
    queues: Mapping[str, tuple[int, int]]
    """`broker|queueId` -> queue offsets from (inclusive) to (exclusive) that it may hold."""
    staged: str = ""
    """Path of the file until the commit moves it to its place."""


@dataclass(frozen=True, slots=True)
class HeldRange:
    """The range of a queue that a commit adds."""

    topic: str
    queue: str
    from_queue_offset: int
    to_queue_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit."""

    number: int
    kind: str
    """`append` adds messages; `compact` puts the same messages into other files."""
    run: str
    at_ms: int
    ranges: tuple[HeldRange, ...] = ()
    files: tuple[LakeFile, ...] = ()
    removed: tuple[str, ...] = ()
    schema: Schema | None = None
    """The columns from now on, where they change."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """Store directory -> physical offset up to which it is in the lake."""

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Manifest:
        """Raises LakeDamaged."""
        values = _known_version(given)
        try:
            return cls(
                **{
                    **values,
                    "ranges": tuple(HeldRange(**one) for one in values["ranges"]),
                    "files": tuple(_file(one) for one in values["files"]),
                    "removed": tuple(values["removed"]),
                    "schema": _schema(values["schema"]),
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LakeDamaged(f"a manifest has not the form that it should have: {error!r}") from error


@dataclass(frozen=True, slots=True)
class LakeState:
    """The state after all manifests up to `number`."""

    number: int = 0
    schema: Schema = ()
    held: Mapping[QueueName, tuple[Held, ...]] = field(default_factory=dict)
    files: Mapping[str, LakeFile] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.held})

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    def next_offset(self, topic: str, queue: str) -> int | None:
        """The first queue offset behind all that is held of a queue; None where nothing is."""
        held = self.held.get((topic, queue))
        return held[-1][1] if held else None

    def after(self, manifest: Manifest) -> LakeState:
        """The state after one more commit. Raises LakeDamaged if that commit does not follow this state."""
        if manifest.number != self.number + 1:
            raise LakeDamaged(f"manifest {manifest.number} does not follow {self.number}")
        held = dict(self.held)
        for one in manifest.ranges:
            held[one.topic, one.queue] = _append(held.get((one.topic, one.queue), ()), one)
        files = dict(self.files)
        for path in manifest.removed:
            if files.pop(path, None) is None:
                raise LakeDamaged(f"manifest {manifest.number} removes {path}, which is not there")
        for file in manifest.files:
            if file.path in files:
                raise LakeDamaged(f"manifest {manifest.number} adds {file.path}, which is there")
            files[file.path] = replace(file, staged="")
        schema = manifest.schema or self.schema
        return LakeState(manifest.number, schema, held, files, {**self.sources, **manifest.sources})

    def check_columns(self, columns: Schema) -> Schema | None:
        """The lake's new columns if `columns` adds any; None if it has them all already.

        Raises SchemaMismatch for a column that has another type, or that would be missing from now on.
        """
        here, given = dict(self.schema), dict(columns)
        for name, kind in here.items():
            if name not in given:
                raise SchemaMismatch(f"the lake has a column {name}: it cannot be left out from now on")
            if given[name] != kind:
                raise SchemaMismatch(f"column {name} is {kind} in the lake, and would be {given[name]}")
        added = tuple((name, kind) for name, kind in columns if name not in here)
        return (*self.schema, *added) if added else None

    def to_json(self) -> dict[str, Any]:
        held: dict[str, dict[str, Any]] = {}
        for (topic, queue), ranges in sorted(self.held.items()):
            held.setdefault(topic, {})[queue] = ranges
        return {
            "version": VERSION,
            "number": self.number,
            "schema": self.schema,
            "held": held,
            "files": [asdict(file) for file in self.files.values()],
            "sources": dict(self.sources),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> LakeState:
        """Raises LakeDamaged."""
        values = _known_version(given)
        try:
            files = [_file(one) for one in values["files"]]
            return cls(
                values["number"],
                _schema(values["schema"]) or (),
                {
                    (topic, queue): tuple((low, high, rows) for low, high, rows in ranges)
                    for topic, queues in values["held"].items()
                    for queue, ranges in queues.items()
                },
                {file.path: file for file in files},
                values["sources"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LakeDamaged(f"a snapshot has not the form that it should have: {error!r}") from error


def fold(state: LakeState, manifests: Iterable[Manifest]) -> LakeState:
    """A state with the commits behind it. Raises LakeDamaged."""
    for manifest in manifests:
        state = state.after(manifest)
    return state


def _append(held: Sequence[Held], added: HeldRange) -> tuple[Held, ...]:
    low, high = added.from_queue_offset, added.to_queue_offset
    if high < low or (held and low < held[-1][1]):
        raise LakeDamaged(f"{added.topic} {added.queue}: offsets {low} to {high} are held already, or turned")
    if held and held[-1][1] == low:
        first, _, rows = held[-1]
        return (*held[:-1], (first, high, rows + added.rows))
    return (*held, (low, high, added.rows))


def _file(given: Mapping[str, Any]) -> LakeFile:
    queues = {queue: (low, high) for queue, (low, high) in given["queues"].items()}
    return LakeFile(**{**given, "queues": queues})


def _schema(given: Any) -> Schema | None:
    return None if given is None else tuple((name, kind) for name, kind in given)


def _known_version(given: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(given)
    version = values.pop("version", None)
    if version != VERSION:
        raise LakeDamaged(f"the lake has form {version}, and this release knows {VERSION}")
    return values
