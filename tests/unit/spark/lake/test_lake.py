"""The lake without Spark: what it holds, and that no crash makes a message vanish or appear twice."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from orbitmq.spark.errors import BadOption  # noqa: E402
from orbitmq.spark.lake import lake as lake_module  # noqa: E402
from orbitmq.spark.lake.compaction import groups_to_merge  # noqa: E402
from orbitmq.spark.lake.errors import LakeBusy, LakeDamaged, LakeError  # noqa: E402
from orbitmq.spark.lake.lake import SNAPSHOT_EVERY, Lake, load, load_with_newest, locate  # noqa: E402
from orbitmq.spark.lake.state import HeldRange  # noqa: E402
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage, RemoteStorage, Storage  # noqa: E402
from orbitmq.spark.lake.writing import (  # noqa: E402
    DayFiles,
)
from tests.kit.lakes import SCHEMA, add, batch_of, finished, merge, stage  # noqa: E402


def listed(root: Path) -> Counter[tuple[str, int, int]]:
    """Messages that a reader finds who knows nothing of manifests: every Parquet file that is not hidden."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path in sorted(root.rglob("*.parquet")):
        parts = path.relative_to(root).parts
        if not any(part.startswith(("_", ".")) for part in parts):
            found.update(rows_of(path.open("rb"), parts[0]))
    return found


def rows_of(stream: IO[bytes], topic: str) -> list[tuple[str, int, int]]:
    with stream:
        table = pq.ParquetFile(stream).read(columns=["queueId", "queueOffset"])
    return [(topic, row["queueId"], row["queueOffset"]) for row in table.to_pylist()]


def followed(root: Path) -> Counter[tuple[str, int, int]]:
    """Messages that a reader finds who follows the manifests."""
    storage = LocalStorage(root)
    state, newest = load_with_newest(storage)
    placed, staged = locate(storage, state, newest)
    found: Counter[tuple[str, int, int]] = Counter()
    for file in [*placed, *staged]:
        found.update(rows_of(storage.open_read(file.path), f"topic={file.topic}"))
    return found


def expected(*ranges: tuple[int, int, int]) -> Counter[tuple[str, int, int]]:
    return Counter(
        ("topic=orders", queue_id, offset) for queue_id, low, high in ranges for offset in range(low, high)
    )


def test_what_is_appended_is_there_once_and_known(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        add(lake, 0, 10)
        add(lake, 10, 15)
        add(lake, 5, 9, queue_id=1)
    state = load(LocalStorage(tmp_path))
    assert state.held == {("orders", "broker-a|0"): ((0, 15, 15),), ("orders", "broker-a|1"): ((5, 9, 4),)}
    assert (state.rows, state.number, state.topics) == (19, 3, ["orders"])
    assert state.next_offset("orders", "broker-a|0") == 15
    assert state.next_offset("orders", "broker-a|7") is None
    assert listed(tmp_path) == followed(tmp_path) == expected((0, 0, 15), (1, 5, 9))
    assert sorted(path.name for path in (tmp_path / "_staged").glob("*")) == []
    (file,) = [file for file in state.files.values() if file.rows == 4]
    assert file.queues == {"broker-a|1": (5, 9)}
    assert file.path == (
        "topic=orders/date=2024-10-04/broker-a-1-00000000000000000005-00000000000000000009.parquet"
    )
    assert (file.first_store_ms, file.last_store_ms) == (20_000 * 86_400_000,) * 2


def test_offsets_are_never_taken_twice(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        add(lake, 0, 10)
        with pytest.raises(LakeDamaged, match="held already"):
            add(lake, 9, 12)
        assert lake.state.number == 1
        add(lake, 10, 12)
    assert listed(tmp_path) == expected((0, 0, 12))


def test_a_second_writer_is_turned_away(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        add(lake, 0, 10)
        with pytest.raises(LakeBusy), Lake.open(LakeLocation(str(tmp_path))):
            pass
        # If nothing locks, the manifest's number tells.
        other = Lake(lake.location, lake.storage, lake.state)
        add(lake, 10, 20)
        with pytest.raises(LakeBusy, match="meanwhile"):
            add(other, 10, 20)
    assert listed(tmp_path) == followed(tmp_path) == expected((0, 0, 20))


def test_snapshots_take_the_place_of_manifests(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        for n in range(2 * SNAPSHOT_EVERY + 3):
            add(lake, n, n + 1)
        whole = lake.state
    names = sorted(path.name for path in (tmp_path / "_manifests").iterdir())
    assert len(names) == 5  # the snapshot, the manifest it ends with, and three more
    assert load(LocalStorage(tmp_path)) == whole
    assert followed(tmp_path) == expected((0, 0, 2 * SNAPSHOT_EVERY + 3))


def test_merging_keeps_every_message(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        for low in range(0, 50, 10):
            add(lake, low, low + 10)
            add(lake, low, low + 10, queue_id=1)
        add(lake, 50, 60, day=20_001)
        before = lake.state
        merge(lake)
        assert lake.state.held == before.held
        assert len(lake.state.files) == 2
        (merged,) = [file for file in lake.state.files.values() if file.date == "2024-10-04"]
        assert merged.queues == {"broker-a|0": (0, 50), "broker-a|1": (0, 50)}
        assert (merged.rows, merged.first_store_ms) == (100, 20_000 * 86_400_000)
    assert listed(tmp_path) == followed(tmp_path) == expected((0, 0, 60), (1, 0, 50))


def test_a_merge_that_lost_messages_is_not_committed(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        add(lake, 0, 10)
        add(lake, 10, 20)
        with pytest.raises(LakeError, match="nothing was changed"):
            lake.replace_files(list(lake.state.files), stage(lake, 0, 19).files)
    assert listed(tmp_path) == followed(tmp_path) == expected((0, 0, 20))


class Crash(BaseException):
    """The process is gone."""


@dataclass
class CrashingStorage(LocalStorage):
    """Ends at the `at`-th change of files, before it or in its middle, and does nothing more after that."""

    def __init__(self, root: Path, at: int, *, half: bool) -> None:
        super().__init__(root)
        self.left = at
        self.half = half
        self.root = root

    def _step(self, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self.left -= 1
        if self.left < 0:
            if self.left == -1 and self.half and half is not None:
                half()
            raise Crash
        return act()

    def create(self, path: str, data: bytes) -> None:
        def unfinished() -> None:
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            (place.parent / f".{place.name}.0").write_bytes(data[: len(data) // 2])

        self._step(lambda: LocalStorage.create(self, path, data), unfinished)

    def open_write(self, path: str) -> IO[bytes]:
        def unfinished() -> None:
            LocalStorage.open_write(self, path).close()

        stream: IO[bytes] = self._step(lambda: LocalStorage.open_write(self, path), unfinished)
        return stream

    def finish(self, file: IO[bytes]) -> None:
        with file:
            self._step(lambda: LocalStorage.finish(self, file))

    def move(self, source: str, target: str) -> None:
        self._step(lambda: LocalStorage.move(self, source, target))

    def remove(self, path: str) -> None:
        self._step(lambda: LocalStorage.remove(self, path))

    def remove_tree(self, folder: str) -> None:
        self._step(lambda: LocalStorage.remove_tree(self, folder))

    def sync(self, folders: Iterable[str]) -> None:
        self._step(lambda: LocalStorage.sync(self, folders))


def crashing(lake: Lake, at: int, half: bool, root: Path) -> CrashingStorage:
    storage = CrashingStorage(root, at, half=half)
    lake.storage = storage
    return storage


def an_append(lake: Lake) -> None:
    first, second = stage(lake, 30, 40), stage(lake, 0, 10, queue_id=1, day=20_001)
    lake.append((*first.ranges, *second.ranges), (*first.files, *second.files))


def a_merge(lake: Lake) -> None:
    group = groups_to_merge(lake.state, 1 << 20, fewest=2)[0]
    files = DayFiles(lake.storage, lake.staging, "orders", "merged-1")
    lake.replace_files([file.path for file in group], finished(files, batch_of(0, 30)))


@pytest.mark.parametrize("half", [False, True], ids=["before", "within"])
@pytest.mark.parametrize("act", [an_append, a_merge])
def test_a_crash_at_every_point(
    tmp_path: Path, act: Callable[[Lake], None], half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill at any change of files leaves all or nothing, and doubles to nobody at any time."""
    monkeypatch.setattr(lake_module, "SNAPSHOT_EVERY", 4)  # the fourth commit makes one
    old = expected((0, 0, 30))
    new = old + expected((0, 30, 40), (1, 0, 10)) if act is an_append else old
    outcomes = set()
    for at in range(200):
        root = tmp_path / f"{at}"
        with Lake.open(LakeLocation(str(root))) as lake:
            for low in (0, 10, 20):
                add(lake, low, low + 10)
        crashed = False
        with contextlib.suppress(Crash), Lake.open(LakeLocation(str(root))) as lake:
            crashing(lake, at, half, root)
            crashed = True
            act(lake)
            crashed = False
        assert followed(root) in (old, new), at
        assert max(listed(root).values(), default=1) == 1, at
        with Lake.open(LakeLocation(str(root))) as lake:
            committed = lake.state.number == 4
            assert listed(root) == followed(root) == (new if committed else old), at
            if not committed:
                act(lake)
        assert listed(root) == followed(root) == new, at
        outcomes.add(committed)
        if not crashed:
            break
    else:
        pytest.fail("it never came to its end")
    assert outcomes == {True, False}
    assert at > 8


def test_files_of_an_older_schema_are_merged_with_newer_ones(tmp_path: Path) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        narrow = DayFiles(lake.storage, lake.staging, "orders", "narrow")
        batch = batch_of(0, 10).drop_columns(["keys", "body"])
        narrow.write(batch)
        held = HeldRange("orders", "broker-a|0", 0, 10, 10)
        lake.append(
            [held], narrow.finish(), schema=tuple(one for one in SCHEMA if one[0] in batch.schema.names)
        )
        wide = stage(lake, 10, 20)
        lake.append(wide.ranges, wide.files, schema=lake.state.check_columns(SCHEMA))
        merge(lake)
        (file,) = lake.state.files.values()
    table = pq.ParquetFile(tmp_path / file.path).read(columns=["queueOffset", "body"])
    assert sorted(table.to_pylist(), key=lambda row: row["queueOffset"]) == [
        {"queueOffset": n, "body": b"x" if n >= 10 else None} for n in range(20)
    ]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_text("{"), "no JSON"),
        (lambda path: path.write_text("[]"), "no JSON object"),
        (lambda path: path.write_text('{"version": 99}'), "form 99"),
        (lambda path: path.write_text('{"version": 1, "number": 1}'), "not the form"),
        (lambda path: path.rename(path.with_name("00000000000000000009.json")), "is manifest 1"),
        (lambda path: path.write_text(path.read_text().replace('"number":1', '"number":2')), "manifest 2"),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: Callable[[Path], None], says: str) -> None:
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        add(lake, 0, 10)
    damage(tmp_path / "_manifests" / "00000000000000000001.json")
    with pytest.raises(LakeDamaged, match=says):
        load(LocalStorage(tmp_path))


@pytest.fixture
def memory_lake() -> Iterator[LakeLocation]:
    fsspec = pytest.importorskip("fsspec")
    location = LakeLocation("memory://lake-of-tests")
    yield location
    fsspec.filesystem("memory").store.clear()


def test_a_lake_on_fsspec(memory_lake: LakeLocation) -> None:
    with Lake.open(memory_lake) as lake:
        assert isinstance(lake.storage, RemoteStorage)
        for low in range(0, 50, 10):
            add(lake, low, low + 10)
        merge(lake)
        other = Lake(lake.location, lake.storage, lake.state)
        add(lake, 50, 60)
        with pytest.raises(LakeBusy):
            add(other, 50, 60)
    storage: Storage = memory_lake.open()
    state = load(storage)
    assert (state.rows, len(state.files)) == (60, 2)
    found: Counter[tuple[str, int, int]] = Counter()
    for path in state.files:
        found.update(rows_of(storage.open_read(path), "topic=orders"))
    assert found == expected((0, 0, 60))
    assert storage.names("_staged") == [other.run]  # whose files nobody will ever name


def test_an_unknown_url_is_said() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(BadOption, match="nosuch"):
        LakeLocation("nosuch://x").open()
