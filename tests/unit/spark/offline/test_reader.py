"""Store directories to Arrow batches, without Spark: every row of the log, and every place that is none."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.kit.store_files import TIME_MS, StoreFiles, size_word

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from orbitmq.protocol.records.batch_cy import encode_batch  # noqa: E402
from orbitmq.protocol.records.compression import deflate  # noqa: E402
from orbitmq.spark.errors import BadOption, DataLost  # noqa: E402
from orbitmq.spark.offline.columns import NAMES, arrow_schema  # noqa: E402
from orbitmq.spark.offline.options import OfflineOptions  # noqa: E402
from orbitmq.spark.offline.planning import NotAStore, plan, without_queues  # noqa: E402
from orbitmq.spark.offline.reader import BadRecords, read_work  # noqa: E402
from orbitmq.spark.offline.scanning import CutInside  # noqa: E402
from orbitmq.spark.offline.storage import LocalFolder, View  # noqa: E402


def read(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a store, in the order of the log."""
    parsed = OfflineOptions.parse({"path": str(path)} | {key: str(value) for key, value in options.items()})
    rows: list[dict[str, Any]] = []
    for work in plan(parsed):
        for batch in read_work(work, parsed, parsed.columns):
            batch.validate(full=True)
            assert batch.schema == arrow_schema(parsed.columns)
            assert batch.num_rows
            rows += batch.to_pylist()
    return rows


def bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows if row["badRecord"] is None]


def bad(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """(physical offset, size, reason) of the rows that stand for what is bad."""
    found = [row["badRecord"] for row in rows if row["badRecord"] is not None]
    return [(one["physicalOffset"], one["sizeBytes"], one["reason"]) for one in found]


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    return StoreFiles(tmp_path / "store")


def filled(store: StoreFiles, count: int = 300) -> list[bytes]:
    sent = [b"message %d " % number + bytes(number % 50) for number in range(count)]
    for number, body in enumerate(sent):
        store.put(body, queue_id=number % 3, tags=f"t{number % 2}")
    return sent


def test_every_message_in_the_order_of_the_log(store: StoreFiles) -> None:
    sent = filled(store)
    rows = read(store.root)
    assert bodies(rows) == sent
    assert not bad(rows)
    assert [row["queueOffset"] for row in rows if row["queueId"] == 1] == list(range(100))
    assert {row["topic"] for row in rows} == {"orders"}
    assert rows[0]["physicalOffset"] == 0
    assert rows[1]["tags"] == "t1"
    assert rows[0]["brokerName"] is None


@pytest.mark.parametrize("split", [150, 1000, 5000, 16 << 10, 1 << 20, 0])
@pytest.mark.parametrize("with_queues", [True, False])
def test_the_same_rows_however_files_are_cut(store: StoreFiles, split: int, with_queues: bool) -> None:
    sent = filled(store, 120)
    if not with_queues:
        shutil.rmtree(store.root / "consumequeue")
    works = plan(OfflineOptions.parse({"path": str(store.root), "splitBytes": str(split)}))
    edges = [(one.file.start + one.begin, one.file.start + one.end) for work in works for one in work.ranges]
    assert all(high <= low for (_, high), (low, _) in pairwise(edges))
    if split == 1000:
        assert len(works) > 10
    assert bodies(read(store.root, splitBytes=split)) == sent


def test_at_least_so_many_tasks(store: StoreFiles) -> None:
    sent = filled(store)
    assert len(plan(OfflineOptions.parse({"path": str(store.root), "minPartitions": "7"}))) >= 7
    assert bodies(read(store.root, minPartitions=7)) == sent


def test_small_files_share_a_task(store: StoreFiles) -> None:
    filled(store)
    assert len(list((store.root / "commitlog").iterdir())) > 2
    assert len(plan(OfflineOptions.parse({"path": str(store.root)}))) == 1


def test_batches_are_cut_by_bytes(store: StoreFiles) -> None:
    for _ in range(40):
        store.put(bytes(1000))
    options = OfflineOptions.parse({"path": str(store.root), "maxBatchBytes": "5000"})
    sizes = [batch.num_rows for work in plan(options) for batch in read_work(work, options, options.columns)]
    assert sum(sizes) == 40
    assert max(sizes) <= 5


def test_topics_tags_and_times(store: StoreFiles) -> None:
    for number in range(10):
        store.put(b"a%d" % number, "orders", tags="red" if number % 2 else "blue")
        store.put(b"b%d" % number, "payments")
        store.put(b"s%d" % number, "SCHEDULE_TOPIC_XXXX")
        store.put(b"r%d" % number, "%RETRY%g")
        store.put(b"d%d" % number, "%DLQ%g")

    def first(rows: list[dict[str, Any]]) -> set[bytes]:
        return {body[:1] for body in bodies(rows)}

    assert first(read(store.root)) == {b"a", b"b"}
    assert first(read(store.root, internalTopics="true")) == {b"a", b"b", b"s", b"r", b"d"}
    assert first(read(store.root, subscribe="payments,%DLQ%g")) == {b"b", b"d"}
    assert first(read(store.root, subscribePattern="pay.*")) == {b"b"}
    assert first(read(store.root, subscribePattern=".*g", internalTopics="true")) == {b"r", b"d"}
    assert first(read(store.root, subscribePattern=".*g")) == set()
    assert bodies(read(store.root, tags="red || green")) == [b"a1", b"a3", b"a5", b"a7", b"a9"]
    timed = read(store.root, startingTimestamp=TIME_MS + 20, endingTimestamp=TIME_MS + 30)
    assert bodies(timed) == [b"a4", b"b4", b"a5", b"b5"]


def test_ranges_far_from_the_times_asked_for_are_not_read(store: StoreFiles) -> None:
    for hour in range(10):
        store.time_ms = TIME_MS + hour * 3_600_000
        for _ in range(60):
            store.put(bytes(200), tags=str(hour))
    given = {"startingTimestamp": TIME_MS + 5 * 3_600_000, "endingTimestamp": TIME_MS + 6 * 3_600_000}
    options = OfflineOptions.parse({"path": str(store.root)} | {k: str(v) for k, v in given.items()})
    everything = plan(OfflineOptions.parse({"path": str(store.root)}))
    read_bytes = sum(len(one) for work in plan(options) for one in work.ranges)
    assert read_bytes < sum(len(one) for work in everything for one in work.ranges) / 2
    assert {row["tags"] for row in read(store.root, **given)} == {"5"}


def test_columns_as_asked_and_no_others(store: StoreFiles) -> None:
    store.put(b"x", properties="KEYS\x01k1\x02")
    assert read(store.root, columns="keys,physicalOffset,brokerName", brokerName="b-1") == [
        {"keys": "k1", "physicalOffset": 0, "brokerName": "b-1"}
    ]
    assert list(read(store.root)[0]) == list(NAMES)


def test_compressed_bodies_and_inner_batches(store: StoreFiles) -> None:
    store.put(deflate(b"long " * 100), sys_flag=1)
    inner = encode_batch([(0, b"one", b"TAGS\x01a\x02"), (0, b"two", b""), (0, b"three", b"")])
    store.put(inner, properties="INNER_BASE\x0141\x02INNER_NUM\x013\x02", sys_flag=0xC0, unit=False)
    store.put(b"half", sys_flag=4, unit=False)
    rows = read(store.root)
    assert bodies(rows) == [b"long " * 100, b"one", b"two", b"three"]
    assert [row["queueOffset"] for row in rows] == [0, 41, 42, 43]


# ---- what is bad ----


def test_a_body_above_the_maximum_is_a_row_that_names_the_option(store: StoreFiles) -> None:
    store.put(deflate(bytes(1000)), sys_flag=1)
    large = store.put(deflate(bytes(1001)), sys_flag=1)
    store.put(b"last")
    rows = read(store.root, maxInflatedBodyBytes="1000")
    assert bodies(rows) == [bytes(1000), b"last"]
    [(place, size, reason)] = bad(rows)
    assert (place, size) == (large.physical_offset, large.size)
    assert "more than 1000 bytes, the maximum by maxInflatedBodyBytes" in reason


def test_a_body_without_its_checksum_is_a_row_of_its_own(store: StoreFiles) -> None:
    sent = filled(store, 30)
    hit = store.put(b"damaged", queue_id=1)
    filled(store, 5)
    store.flip(hit.physical_offset + 90)
    rows = read(store.root)
    assert bad(rows) == [(hit.physical_offset, hit.size, "the body does not have its checksum")]
    assert len(bodies(rows)) == len(sent) + 5
    row = next(row for row in rows if row["badRecord"])
    assert row["physicalOffset"] == hit.physical_offset
    assert row["badRecord"]["file"] == str(store.log_file(hit.physical_offset))
    assert row["topic"] is row["body"] is None


def test_unknown_magic_and_wrong_sizes_are_stepped_over(store: StoreFiles) -> None:
    kept = [store.put(b"a").physical_offset]
    magic = store.put(b"unknown magic")
    kept.append(store.put(b"b").physical_offset)
    size = store.put(b"wrong size")
    kept.append(store.put(b"c").physical_offset)
    store.flip(magic.physical_offset + 5)
    store.write(size.physical_offset, size_word(size.size + 3))
    rows = read(store.root)
    assert [(at, length) for at, length, _ in bad(rows)] == [
        (magic.physical_offset, magic.size),
        (size.physical_offset, size.size),
    ]
    assert [row["physicalOffset"] for row in rows if row["badRecord"] is None] == kept


def test_zeros_before_records_are_damage(store: StoreFiles) -> None:
    store.put(b"a")
    hole = store.put(bytes(300))
    store.put(b"b")
    store.write(hole.physical_offset, bytes(hole.size))
    rows = read(store.root)
    assert bodies(rows) == [b"a", b"b"]
    assert bad(rows) == [(hole.physical_offset, hole.size, "zeros where a record should be")]


def test_a_torn_last_record_is_reported_without_the_zeros_behind(store: StoreFiles) -> None:
    sent = filled(store, 10)
    torn = store.put(b"\x01" * 600)
    store.write(torn.physical_offset + 200, bytes(torn.size - 200))
    rows = read(store.root)
    assert bodies(rows) == sent
    assert [(at, size) for at, size, _ in bad(rows)] == [(torn.physical_offset, 200)]


def test_a_gap_in_the_log(store: StoreFiles) -> None:
    filled(store, 400)
    files = sorted((store.root / "commitlog").iterdir())
    assert len(files) > 3
    files[1].unlink()
    rows = read(store.root)
    assert [(at, size) for at, size, _ in bad(rows)] == [(store.segment_bytes, store.segment_bytes)]


def test_bad_records_that_nobody_would_see_fail_the_read(store: StoreFiles) -> None:
    hit = store.put(b"damaged")
    store.flip(hit.physical_offset + 90)
    for options in ({"badRecords": "fail"}, {"columns": "keys"}):
        with pytest.raises(BadRecords, match=r"checksum \(.* at physical offset 0\)"):
            read(store.root, **options)


def test_a_table_of_bad_records_alone(store: StoreFiles) -> None:
    filled(store, 10)
    hit = store.put(b"damaged")
    store.flip(hit.physical_offset + 90)
    rows = read(store.root, badRecords="only")
    assert [row["badRecord"]["physicalOffset"] for row in rows] == [hit.physical_offset]


@pytest.mark.parametrize("split", [700, 0])
def test_whatever_byte_is_hit_the_other_messages_are_read(store: StoreFiles, split: int) -> None:
    """Each byte of a record's front in turn: either it is nothing that is read, or the place is reported."""
    puts = [store.put(b"message %d" % number, tags="x") for number in range(20)]
    path = store.log_file(0)
    whole = path.read_bytes()
    everything = [row["body"] for row in read(store.root)]
    for place in range(puts[10].physical_offset, puts[10].physical_offset + puts[10].size):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x81]) + whole[place + 1 :])
        rows = read(store.root, splitBytes=split)
        sound = bodies(rows)
        assert [body for number, body in enumerate(everything) if number != 10] == [
            body for body in sound if body != b"message 10" and body in everything
        ], place
        assert len(sound) + len(bad(rows)) >= 20


# ---- the end of a log ----


def test_files_that_were_made_ahead_are_no_part_of_the_log(store: StoreFiles) -> None:
    sent = filled(store, 10)
    for ahead in (1, 2):
        store.log_file(ahead * store.segment_bytes).write_bytes(bytes(store.segment_bytes))
    rows = read(store.root)
    assert bodies(rows) == sent
    assert not bad(rows)


def test_what_is_written_after_planning_is_not_read(store: StoreFiles) -> None:
    sent = filled(store, 10)
    options = OfflineOptions.parse({"path": str(store.root)})
    works = plan(options)
    store.put(b"later")
    rows = [row for work in works for batch in read_work(work, options, NAMES) for row in batch.to_pylist()]
    assert bodies(rows) == sent


def test_a_file_that_retention_takes_after_planning(store: StoreFiles) -> None:
    filled(store, 400)
    strict = OfflineOptions.parse({"path": str(store.root)})
    lenient = OfflineOptions.parse({"path": str(store.root), "failOnDataLoss": "false"})
    works = plan(strict)
    left = bodies(read(store.root))
    first = store.log_file(0)
    gone = bodies(
        [
            row
            for work in works
            for batch in read_work(work, strict, NAMES)
            for row in batch.to_pylist()
            if row["physicalOffset"] < store.segment_bytes
        ]
    )
    first.unlink()
    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        [batch for work in works for batch in read_work(work, strict, NAMES)]
    rows = [row for work in works for batch in read_work(work, lenient, NAMES) for row in batch.to_pylist()]
    assert bodies(rows) == left[len(gone) :]


def test_an_empty_store(store: StoreFiles) -> None:
    store.log_file(0).parent.mkdir(parents=True)
    store.log_file(0).write_bytes(bytes(store.segment_bytes))
    assert read(store.root) == []


# ---- messages that look like records ----


def forged(store: StoreFiles, count: int = 40) -> bytes:
    """A body full of records that claim to stand where they do, as one who knows the log's end can send."""
    from orbitmq.protocol.records.encoding_cy import encode_record
    from tests.kit.store_files import HOST

    body = bytearray(200 * count)
    position = 0
    begins = store.end + 88  # where a body begins in a record
    for number in range(count):
        position += encode_record(
            body,
            position,
            9,
            0,
            number,
            begins + position,
            0,
            1,
            HOST,
            1,
            HOST,
            0,
            0,
            b"forged",
            b"orders",
            b"",
        )
    return bytes(body[:position])


def test_a_record_inside_of_a_message_is_no_record(store: StoreFiles) -> None:
    sent = [*filled(store, 20)]
    body = forged(store)
    store.put(body)
    sent += [body, *filled(store, 20)]
    assert bodies(read(store.root, splitBytes=300)) == sent


def test_without_queues_a_cut_inside_of_a_message_is_an_error(store: StoreFiles) -> None:
    sent = filled(store, 20)
    body = forged(store)
    store.put(body)
    shutil.rmtree(store.root / "consumequeue")
    with pytest.raises(CutInside, match="splitBytes=0"):
        read(store.root, splitBytes=300)
    assert bodies(read(store.root, splitBytes=0)) == [*sent, body]


# ---- where stores are ----


def test_a_folder_of_commit_log_files_and_one_elsewhere(store: StoreFiles, tmp_path: Path) -> None:
    sent = filled(store, 400)
    assert bodies(read(store.root / "commitlog")) == sent
    other = tmp_path / "other"
    other.mkdir()
    last = max((store.root / "commitlog").iterdir())
    last.rename(other / last.name)
    assert bodies(read(store.root, commitLogPath=f"{store.root}/commitlog,{other}")) == sent


def test_several_stores(tmp_path: Path) -> None:
    for name in ("a", "b"):
        StoreFiles(tmp_path / name / "store").put(name.encode())
    rows = read(tmp_path / "*" / "store", brokerName="broker-a,broker-b")
    assert [(row["brokerName"], row["body"]) for row in rows] == [("broker-a", b"a"), ("broker-b", b"b")]


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="no commit-log files"):
        read(tmp_path)
    with pytest.raises(BadOption, match="did you mean splitBytes"):
        read(tmp_path, splitByte=1)
    with pytest.raises(BadOption, match="badRecords"):
        read(tmp_path, badRecords="maybe")
    with pytest.raises(BadOption, match="subscribePattern"):
        read(tmp_path, subscribePattern="(")


def test_a_store_behind_fsspec(store: StoreFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    from orbitmq.spark.offline import storage

    monkeypatch.setattr(storage, "CHUNK_BYTES", 700)
    sent = filled(store, 200)
    big = store.put(b"z" * 5000)
    sent.append(b"z" * 5000)
    hit = store.put(b"damaged")
    store.flip(hit.physical_offset + 90)
    sent += filled(store, 10)
    memory = fsspec.filesystem("memory")
    url = f"memory://{store.root.parent.name}/store"
    for path in store.root.rglob("*"):
        if path.is_file():
            memory.pipe(f"{url}/{path.relative_to(store.root)}", path.read_bytes())
    try:
        for split in (0, 1000, 1 << 20):
            rows = read(url, splitBytes=split)
            assert bodies(rows) == sent
            assert [at for at, _, _ in bad(rows)] == [hit.physical_offset]
        assert big.size > 5000
        assert bodies(read(f"memory://{store.root.parent.name}/*")) == sent
    finally:
        memory.rm(f"/{store.root.parent.name}", recursive=True)


def test_a_topic_without_queues_is_told_and_read_all_the_same(store: StoreFiles, tmp_path: Path) -> None:
    def told(*paths: Path, topic: str) -> list[str]:
        return without_queues(
            OfflineOptions.parse({"paths": json.dumps([*map(str, paths)]), "subscribe": topic})
        )

    store.put(b"kept", "orders")
    other = StoreFiles(tmp_path / "other")
    other.put(b"elsewhere", "payments")
    assert told(store.root, topic="ordres") == [
        "no queue of topic ordres is in the store; did you mean orders?"
    ]
    assert told(store.root, other.root, topic="orders,payments") == []
    shutil.rmtree(store.root / "consumequeue" / "orders")  # as of a topic that was deleted
    assert told(store.root, other.root, topic="orders") == ["no queue of topic orders is in the store"]
    assert bodies(read(store.root, subscribe="orders")) == [b"kept"]
    shutil.rmtree(store.root / "consumequeue")
    assert told(store.root, topic="orders") == [], "queues may be kept elsewhere"


def tasks(store: StoreFiles, **options: str) -> list[tuple[int, int]]:
    """The parts of the log that tasks would read."""
    parsed = OfflineOptions.parse({"path": str(store.root), "splitBytes": "3000", **options})
    return [
        (one.file.start + one.begin, one.file.start + one.end) for work in plan(parsed) for one in work.ranges
    ]


def in_turn(store: StoreFiles) -> list[tuple[str, int, bytes]]:
    """Three topics one after the other, each over more than a file of the log: topic, place, body."""
    sent = []
    for topic in ("orders", "payments", "refunds"):
        for number in range(200):
            body = f"{topic} {number}".encode()
            sent.append((topic, store.put(body, topic, number % 2).physical_offset, body))
    return sent


@pytest.mark.parametrize("topic", ["orders", "payments", "refunds"])
def test_what_other_topics_account_for_is_not_read(store: StoreFiles, topic: str) -> None:
    sent = in_turn(store)
    own = [place for name, place, _ in sent if name == topic]
    others = [place for name, place, _ in sent if name != topic]
    read_parts = tasks(store, subscribe=topic)
    assert all(any(low <= place < high for low, high in read_parts) for place in own)
    left_out = [place for place in others if not any(low <= place < high for low, high in read_parts)]
    assert len(left_out) > len(others) * 3 // 4
    expected = [body for name, _, body in sent if name == topic]
    assert bodies(read(store.root, subscribe=topic, splitBytes=3000)) == expected
    assert bodies(read(store.root, subscribePattern=f"{topic[:3]}.*", splitBytes=3000)) == expected


@pytest.mark.parametrize("what", ["queue gone", "queue older", "units of zeros", "a unit hit"])
def test_queues_that_lack_units_leave_no_message_out(store: StoreFiles, what: str) -> None:
    sent = in_turn(store)
    folder = store.root / "consumequeue" / "payments"
    for path in list(folder.glob("*/*")):
        units = bytearray(path.read_bytes())
        if what == "queue gone":
            shutil.rmtree(folder, ignore_errors=True)
            break
        if what == "queue older":
            units[20 * 30 :] = bytes(len(units) - 20 * 30)
        elif what == "units of zeros":
            units[20 * 40 : 20 * 60] = bytes(20 * 20)
        else:
            units[20 * 50 + 2] ^= 0x10
        path.write_bytes(units)
    expected = [body for name, _, body in sent if name == "payments"]
    assert bodies(read(store.root, subscribe="payments", splitBytes=3000)) == expected


def test_bad_records_are_looked_for_in_all_of_the_log_where_they_are_all_that_is_asked_for(
    store: StoreFiles,
) -> None:
    sent = in_turn(store)
    place = next(place for name, place, _ in sent if name == "refunds")
    store.flip(place + 90)
    assert not bad(read(store.root, subscribe="orders", splitBytes=3000))
    assert [at for at, _, _ in bad(read(store.root, subscribe="refunds", splitBytes=3000))] == [place]
    assert [at for at, _, _ in bad(read(store.root, subscribe="orders", badRecords="only"))] == [place]


def test_too_many_queues_have_all_of_the_log_read(store: StoreFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn(store)
    fewer = tasks(store, subscribe="orders")
    monkeypatch.setattr("orbitmq.spark.offline.queues.MOST_FILES", 5)
    assert len(tasks(store, subscribe="orders")) > len(fewer)


def test_copies_of_queue_files_do_not_stand_for_messages_of_others(store: StoreFiles) -> None:
    for number in range(50):
        store.put(b"%02d" % number, "orders", 0)
        store.put(b"%02d" % number, "paying", 0)  # a record as long
    shutil.rmtree(store.root / "consumequeue" / "orders")  # as of a topic that was deleted
    for path in list((store.root / "consumequeue" / "paying" / "0").iterdir()):
        shutil.copy(path, path.with_name(path.name + ".bak"))
    assert len(bodies(read(store.root, subscribe="orders"))) == 50


def test_queue_files_that_go_while_they_are_looked_at_have_all_of_the_log_read(
    store: StoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_turn(store)
    fewer = tasks(store, subscribe="orders")

    view = LocalFolder.view

    def view_of_the_log(folder: LocalFolder, name: str) -> View:
        if "consumequeue" in name:
            raise FileNotFoundError(name)
        return view(folder, name)

    monkeypatch.setattr(LocalFolder, "view", view_of_the_log)
    assert len(tasks(store, subscribe="orders")) > len(fewer)
