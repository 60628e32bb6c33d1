"""The lake without Spark: what it holds, and that no crash makes a message vanish or appear twice."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from orbitmq.spark.errors import BadOption, DataLost  # noqa: E402
from orbitmq.spark.jobs.archive.planning import next_batch, pieces, what_is_new  # noqa: E402
from orbitmq.spark.jobs.archive.tasks import Written  # noqa: E402
from orbitmq.spark.lake import lake as lake_module  # noqa: E402
from orbitmq.spark.lake.compaction import MergeTask, groups_to_merge  # noqa: E402
from orbitmq.spark.lake.errors import LakeBusy, LakeDamaged, LakeError, SchemaMismatch  # noqa: E402
from orbitmq.spark.lake.lake import SNAPSHOT_EVERY, Lake, load, load_with_newest, locate  # noqa: E402
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, Manifest, fold  # noqa: E402
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage, RemoteStorage, Storage  # noqa: E402
from orbitmq.spark.lake.writing import (  # noqa: E402
    IN_PATH,
    DayFiles,
    ParquetForm,
    file_name,
    schema_of,
    split_by_day,
)
from orbitmq.spark.read.columns import NAMES, arrow_schema  # noqa: E402
from orbitmq.spark.read.planning import OffsetRange, Queue  # noqa: E402

COLUMNS = tuple(name for name in NAMES if name not in IN_PATH)
DAY_US = 86_400_000_000
SCHEMA = schema_of(COLUMNS)


def batch_of(low: int, high: int, *, queue_id: int = 0, day: int = 20_000, body: bytes = b"x") -> Any:
    """Messages low to high-1 of one queue, stored a microsecond apart on a day."""
    count = high - low
    values: dict[str, Any] = {
        "brokerName": ["broker-a"] * count,
        "queueId": [queue_id] * count,
        "queueOffset": list(range(low, high)),
        "body": [body] * count,
        "properties": [[("n", str(n))] for n in range(low, high)],
        "storeTimestamp": [day * DAY_US + n for n in range(low, high)],
    }
    schema = arrow_schema(COLUMNS)
    return pa.record_batch(
        [pa.array(values.get(field.name, [None] * count), field.type) for field in schema], schema=schema
    )


def stage(
    lake: Lake, low: int, high: int, *, topic: str = "orders", queue_id: int = 0, day: int = 20_000
) -> Written:
    """The work of a task of the archive."""
    key = f"broker-a|{queue_id}"
    files = DayFiles(lake.storage, lake.staging, topic, file_name(key, low, high))
    done = finished(files, batch_of(low, high, queue_id=queue_id, day=day))
    return Written((HeldRange(topic, key, low, high, high - low),), done)


def finished(files: DayFiles, batch: Any) -> tuple[LakeFile, ...]:
    try:
        files.write(batch)
        return tuple(files.finish())
    except BaseException:
        files.abandon()
        raise


def add(lake: Lake, low: int, high: int, **where: Any) -> None:
    written = stage(lake, low, high, **where)
    schema = None if lake.state.schema else SCHEMA
    lake.append(written.ranges, written.files, schema=schema)


def merge(lake: Lake) -> None:
    task = MergeTask(lake.location, lake.staging, ParquetForm())
    for group in groups_to_merge(lake.state, 1 << 20, fewest=2):
        lake.replace_files([file.path for file in group], task(group))


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
        # Where nothing locks, the manifest's number tells.
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


def test_days_are_those_of_utc_and_never_mixed(tmp_path: Path) -> None:
    mixed = pa.Table.from_batches([batch_of(0, 5, day=1), batch_of(5, 9, day=2), batch_of(9, 12, day=1)])
    batch = mixed.combine_chunks().to_batches()[0]
    found = [(date, rows.column("queueOffset").to_pylist()) for date, rows in split_by_day(batch)]
    assert found == [("1970-01-02", [0, 1, 2, 3, 4, 9, 10, 11]), ("1970-01-03", [5, 6, 7, 8])]
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        files = DayFiles(lake.storage, lake.staging, "%RETRY%g", "x")
        files.write(batch)
        done = files.finish()
    assert {(file.date, file.rows) for file in done} == {("1970-01-02", 8), ("1970-01-03", 4)}
    assert all(file.path.startswith("topic=%25RETRY%25g/date=1970-") for file in done)


def test_messages_without_a_time_have_a_day(tmp_path: Path) -> None:
    schema = arrow_schema(COLUMNS)
    nulls = batch_of(0, 3).set_column(
        schema.get_field_index("storeTimestamp"),
        "storeTimestamp",
        pa.nulls(3, schema.field("storeTimestamp").type),
    )
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        files = DayFiles(lake.storage, lake.staging, "orders", "x")
        files.write(nulls)
        files.write(batch_of(3, 4, day=0))
        (done,) = files.finish()
    assert (done.date, done.rows, done.last_store_ms) == ("1970-01-01", 4, 0)


def test_a_worker_holds_one_row_group(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    files = DayFiles(storage, "_staged/r", "orders", "x", ParquetForm(row_group_bytes=100_000))
    for low in range(0, 2000, 100):
        files.write(batch_of(low, low + 100, body=b"y" * 1000))
    (done,) = files.finish()
    written = pq.ParquetFile(tmp_path / done.staged).metadata
    sizes = [written.row_group(number).num_rows * 1000 for number in range(written.num_row_groups)]
    assert len(sizes) >= 10
    assert max(sizes) < 200_000


def test_columns_may_come_and_not_change_or_go() -> None:
    state = fold(
        LakeState(), [Manifest(1, "append", "r", 0, schema=(("queueId", "int"), ("body", "binary")))]
    )
    assert state.check_columns((("queueId", "int"), ("body", "binary"))) is None
    wider = state.check_columns((("queueId", "int"), ("body", "binary"), ("keys", "string")))
    assert wider == (("queueId", "int"), ("body", "binary"), ("keys", "string"))
    with pytest.raises(SchemaMismatch, match="body"):
        state.check_columns((("queueId", "int"),))
    with pytest.raises(SchemaMismatch, match="body is binary in the lake"):
        state.check_columns((("queueId", "int"), ("body", "string")))


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


def test_states_and_manifests_survive_json() -> None:
    file = LakeFile("p", "t", "2024-01-01", 3, 4, 5, 6, {"b|0": (1, 4)}, "s")
    manifest = Manifest(1, "append", "r", 7, (HeldRange("t", "b|0", 1, 4, 3),), (file,), (), SCHEMA, {"x": 9})
    assert Manifest.from_json(manifest.to_json()) == manifest
    state = fold(LakeState(), [manifest])
    assert LakeState.from_json(state.to_json()) == state
    assert state.files["p"] == replace(file, staged="")
    assert Written.from_json(Written(manifest.ranges, manifest.files).to_json()) == Written(
        manifest.ranges, manifest.files
    )


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


def in_delta(root: Path) -> Counter[tuple[str, int]]:
    from deltalake import DeltaTable

    table = DeltaTable(str(root)).to_pyarrow_table(columns=["topic", "queueOffset"])
    return Counter((row["topic"], row["queueOffset"]) for row in table.to_pylist())


def test_a_delta_log_follows_the_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    where = LakeLocation(str(tmp_path))
    with Lake.open(where) as lake:
        add(lake, 0, 10, topic="%RETRY%g")  # committed before anybody asked for Delta
    with Lake.open(where, delta=True) as lake:
        assert in_delta(tmp_path) == Counter(("%RETRY%g", n) for n in range(10))
        add(lake, 10, 20, topic="%RETRY%g")
        add(lake, 0, 5)
        expected_rows = Counter([*(("%RETRY%g", n) for n in range(20)), *(("orders", n) for n in range(5))])
        assert in_delta(tmp_path) == expected_rows
        merge(lake)
        assert in_delta(tmp_path) == expected_rows
    with monkeypatch.context() as patch, contextlib.suppress(Crash):
        patch.setattr(lake_module.delta_log, "follow", crash)
        with Lake.open(where) as lake:
            pass
    with Lake.open(where) as lake:  # once a Delta table, always one
        with monkeypatch.context() as patch, contextlib.suppress(Crash):
            patch.setattr(lake_module.delta_log, "follow", crash)
            add(lake, 5, 6)
        assert in_delta(tmp_path) == expected_rows
    with Lake.open(where) as lake:
        assert in_delta(tmp_path) == expected_rows + Counter([("orders", 5)])


def crash(*_: object) -> None:
    raise Crash


def test_a_delta_log_without_its_package_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(BadOption, match="pip install"), Lake.open(LakeLocation(str(tmp_path)), delta=True):
        pass


# ---- what a batch takes ----


def queue(queue_id: int = 0, *, is_master: bool = True) -> Queue:
    return Queue("orders", "broker-a", queue_id, "127.0.0.1:1", is_master)


def holding(*ranges: tuple[int, int]) -> LakeState:
    held = [HeldRange("orders", "broker-a|0", low, high, high - low) for low, high in ranges]
    return fold(LakeState(), [Manifest(n, "append", "r", 0, (one,)) for n, one in enumerate(held, 1)])


def test_a_batch_goes_on_where_the_lake_ends() -> None:
    bounds = {queue(0): (0, 100), queue(1): (7, 9), queue(2): (5, 5)}
    ranges, lost = what_is_new(holding((0, 40), (40, 60)), bounds, fail_on_data_loss=True)
    assert [(one.queue.queue_id, one.from_queue_offset, one.to_queue_offset) for one in ranges] == [
        (0, 60, 100),
        (1, 7, 9),
    ]
    assert lost == []


def test_what_is_gone_is_an_error_or_named() -> None:
    state, bounds = holding((0, 40)), {queue(0): (50, 100)}
    with pytest.raises(DataLost, match="offsets 40 to 49 are gone"):
        what_is_new(state, bounds, fail_on_data_loss=True)
    ranges, lost = what_is_new(state, bounds, fail_on_data_loss=False)
    assert [(one.from_queue_offset, one.to_queue_offset) for one in ranges] == [(50, 100)]
    assert [str(one) for one in lost] == ["orders broker-a|0: offsets 40 to 49 are gone"]


def test_a_topic_made_anew_is_an_error_and_a_slave_behind_is_waited_for() -> None:
    state = holding((0, 40))
    for allowed in (True, False):
        with pytest.raises(DataLost, match="made anew"):
            what_is_new(state, {queue(0): (0, 39)}, fail_on_data_loss=allowed)
    assert what_is_new(state, {queue(0, is_master=False): (0, 39)}, fail_on_data_loss=True) == ([], [])


def test_batches_and_pieces_cover_everything_once() -> None:
    ranges = [OffsetRange(queue(0), 10, 1010), OffsetRange(queue(1), 0, 3), OffsetRange(queue(2), 5, 405)]
    batch = next_batch(ranges, 100)
    assert [len(one) for one in batch] == [71, 1, 28]
    assert [one.from_queue_offset for one in batch] == [10, 0, 5]
    assert next_batch(ranges, 5000) == ranges
    cut = pieces(ranges, workers=2, most=10_000, smallest=100)
    assert max(map(len, cut)) <= 352
    for whole in ranges:
        covered = [
            n
            for one in cut
            if one.queue == whole.queue
            for n in range(one.from_queue_offset, one.to_queue_offset)
        ]
        assert covered == list(range(whole.from_queue_offset, whole.to_queue_offset))
    assert max(map(len, pieces(ranges, workers=1, most=50))) == 50
