"""A lake that is written to: opened, recovered, committed to. One writer at a time."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from orbitmq.spark.lake import delta as delta_log
from orbitmq.spark.lake.errors import LakeBusy, LakeDamaged, LakeError
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, Manifest, Schema, fold
from orbitmq.spark.lake.storage import LakeLocation, Storage

MANIFESTS = "_manifests"
STAGED = "_staged"
DELTA_LOG = "_delta_log"
SNAPSHOT_EVERY = 32
"""Commits between snapshots: so many manifests are read at most, besides one snapshot."""

_NAME = re.compile(r"(\d{20})(\.snapshot)?\.json")


def load(storage: Storage) -> LakeState:
    """The present state of the lake. Raises LakeDamaged."""
    state, _ = _load(storage)
    return state


def load_with_newest(storage: Storage) -> tuple[LakeState, Manifest | None]:
    """The state, and the newest manifest, whose files may still be where they were staged."""
    return _load(storage)


def _load(storage: Storage) -> tuple[LakeState, Manifest | None]:
    for _ in range(10):
        try:
            return _load_once(storage)
        except FileNotFoundError:
            continue  # a writer has made a snapshot and removed what went before it
    raise LakeDamaged("manifests vanish while they are read")


def _load_once(storage: Storage) -> tuple[LakeState, Manifest | None]:
    numbers: list[int] = []
    snapshots: list[int] = []
    for name in storage.names(MANIFESTS):
        if found := _NAME.fullmatch(name):
            (snapshots if found.group(2) else numbers).append(int(found.group(1)))
    state = LakeState()
    if snapshots:
        newest = max(snapshots)
        state = LakeState.from_json(_json(storage, _snapshot_path(newest)))
    manifest = None
    for number in sorted(numbers):
        if number >= state.number:
            manifest = Manifest.from_json(_json(storage, _manifest_path(number)))
            if manifest.number != number:
                raise LakeDamaged(f"{_manifest_path(number)} is manifest {manifest.number}")
            if number > state.number:
                state = state.after(manifest)
    return state, manifest


def _json(storage: Storage, path: str) -> dict[str, object]:
    try:
        found = json.loads(storage.read(path))
    except ValueError as error:
        raise LakeDamaged(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise LakeDamaged(f"{path} is no JSON object")
    return found


def _manifest_path(number: int) -> str:
    return f"{MANIFESTS}/{number:020}.json"


def _snapshot_path(number: int) -> str:
    return f"{MANIFESTS}/{number:020}.snapshot.json"


@dataclass
class Lake:
    """A lake that is open for writing: no other run writes to it meanwhile."""

    location: LakeLocation
    storage: Storage
    state: LakeState
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_delta_log: bool = False
    _in_commit: bool = False

    @classmethod
    @contextlib.contextmanager
    def open(cls, location: LakeLocation, *, delta: bool = False) -> Iterator[Lake]:
        """Locks the lake and finishes what a crash has left.

        With `delta` it becomes a Delta table as well; one that is stays one. Raises LakeBusy,
        LakeDamaged, and BadOption where the package that a Delta log needs is missing.
        """
        storage = location.open()
        delta = delta or bool(storage.names(DELTA_LOG))
        if delta:
            delta_log.check()
        with storage.lock():
            state, newest = _load(storage)
            if newest is not None:
                _publish(storage, newest)
            if location.is_local:
                # No other run writes; elsewhere it may be another run's work under way.
                storage.remove_tree(STAGED)
            lake = cls(location, storage, state, has_delta_log=delta)
            lake._follow()
            try:
                yield lake
            finally:
                # Of a commit that was interrupted half way it is unknown here whether it counts: the next one
                # to open the lake sees, and needs the files then.
                if not lake._in_commit:
                    lake.storage.remove_tree(lake.staging)

    @property
    def staging(self) -> str:
        """The folder for files of this run's workers."""
        return f"{STAGED}/{self.run}"

    def append(
        self,
        ranges: Sequence[HeldRange],
        files: Sequence[LakeFile],
        *,
        schema: Schema | None = None,
        sources: dict[str, int] | None = None,
    ) -> None:
        """Commits messages: from here on the lake holds them. Raises LakeBusy."""
        self._commit("append", ranges=tuple(ranges), files=tuple(files), schema=schema, sources=sources or {})

    def replace_files(self, removed: Sequence[str], files: Sequence[LakeFile]) -> None:
        """Commits that `files` hold what `removed` held. Raises LakeError if the messages are not as many."""
        before = sum(self.state.files[path].rows for path in removed)
        after = sum(file.rows for file in files)
        if before != after:
            raise LakeError(f"{before} messages became {after}: nothing was changed")
        self._commit("compact", files=tuple(files), removed=tuple(removed))

    def _commit(self, kind: str, **parts: object) -> None:
        if self._in_commit:
            raise LakeError("a commit was interrupted: open the lake again, which completes it or undoes it")
        number = self.state.number + 1
        manifest = Manifest(number, kind, self.run, int(time.time() * 1000), **parts)  # type: ignore[arg-type]
        after = self.state.after(manifest)
        # The workers have written and flushed the files; their names are in folders of their own.
        self.storage.sync({os.path.dirname(file.staged) for file in manifest.files})
        self._in_commit = True
        try:
            self.storage.create(_manifest_path(number), _bytes(manifest.to_json()))
        except FileExistsError:
            self._in_commit = False
            raise LakeBusy(
                "another job has written to the lake meanwhile: nothing was added by this one"
            ) from None
        self.state = after
        _publish(self.storage, manifest)
        self._in_commit = False
        self._follow()
        if number % SNAPSHOT_EVERY == 0:
            self._snapshot()

    def _follow(self) -> None:
        if self.has_delta_log:
            delta_log.follow(self.location, self.state)

    def _snapshot(self) -> None:
        """Writes down what the manifests come to, then drops those that went before: the newest one stays."""
        number = self.state.number
        with contextlib.suppress(FileExistsError):
            self.storage.create(_snapshot_path(number), _bytes(self.state.to_json()))
        for name in self.storage.names(MANIFESTS):
            if (found := _NAME.fullmatch(name)) and int(found.group(1)) < number:
                self.storage.remove(f"{MANIFESTS}/{name}")


def _bytes(values: dict[str, object]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def _publish(storage: Storage, manifest: Manifest) -> None:
    """Gives the files of a commit their place; safe to repeat, after a crash at any point of it.

    Files that are replaced go first: who lists the folders rather misses messages for a moment than sees them
    twice.
    """
    for path in manifest.removed:
        storage.remove(path)
    for file in manifest.files:
        try:
            storage.move(file.staged, file.path)
        except FileNotFoundError:
            if not storage.exists(file.path):
                raise LakeDamaged(f"{file.path} of manifest {manifest.number} is gone") from None
    touched = {os.path.dirname(path) for path in manifest.removed}
    storage.sync(touched | {os.path.dirname(file.path) for file in manifest.files})


def locate(
    storage: Storage, state: LakeState, newest: Manifest | None
) -> tuple[list[LakeFile], list[LakeFile]]:
    """The files at their places, and those that a crash has left where they were staged."""
    staged = {file.path: file.staged for file in newest.files} if newest is not None else {}
    placed, elsewhere = [], []
    for file in state.files.values():
        if file.path in staged and not storage.exists(file.path) and storage.exists(staged[file.path]):
            elsewhere.append(replace(file, path=staged[file.path]))
        else:
            placed.append(file)
    return placed, elsewhere


__all__ = ["Lake", "fold", "load", "load_with_newest", "locate"]
