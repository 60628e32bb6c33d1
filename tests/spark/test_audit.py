"""The job `audit`: each defect that is planted is found, as what it is, and nothing else is."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from orbitmq.protocol.records.hashing import index_hash
from orbitmq.protocol.records.queue_units import pack_unit
from tests.kit.store_files import StoreFiles
from tests.peers.apache import Apache
from tests.spark.conftest import Outgoing, Server, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.jobs.audit.auditing import AuditResult

pytestmark = pytest.mark.timeout(900)

SLOTS, ENTRIES = 100, 400


def healthy(root: Path) -> StoreFiles:
    """A store without a fault: two topics, keys and an index, groups, a transaction that was decided."""
    store = StoreFiles(root)
    placed = []
    for number in range(60):
        topic = "orders" if number % 3 else "payments"
        put = store.put(
            b"message %d" % number * 5, topic, number % 2, tags="red", properties=f"KEYS\x01k{number}\x02"
        )
        placed += [(put.physical_offset, f"{topic}#k{number}"), (put.physical_offset, f"{topic}#T#red")]
    store.put(b"half 0", HALF_TOPIC, properties="REAL_TOPIC\x01orders\x02PGROUP\x01pg\x02UNIQ_KEY\x01U0\x02")
    placed.append((store.end - last_size(store, HALF_TOPIC), f"{HALF_TOPIC}#U0"))
    store.put(b"0,", OP_HALF_TOPIC, tags="d")
    placed.append((store.end - last_size(store, OP_HALF_TOPIC), f"{OP_HALF_TOPIC}#T#d"))
    write_index(root, placed)
    commit(root, {"orders@g1": {0: 20, 1: 20}, "payments@g1": {0: 3}, "never@g1": {0: 0}})
    return store


def last_size(store: StoreFiles, topic: str) -> int:
    offset = store.offsets[topic, 0] - 1
    raw = next((store.root / "consumequeue" / topic / "0").iterdir()).read_bytes()
    return int(struct.unpack_from(">i", raw, offset * 20 + 8)[0])


def commit(root: Path, table: dict[str, dict[int, int]]) -> None:
    (root / "config").mkdir(exist_ok=True)
    rows = ",".join(
        f'"{key}":{{' + ",".join(f"{queue}:{at}" for queue, at in queues.items()) + "}"
        for key, queues in table.items()
    )
    (root / "config" / "consumerOffset.json").write_text(f'{{"offsetTable":{{{rows}}}}}')


def write_index(root: Path, placed: list[tuple[int, str]]) -> None:
    """An index file as brokers write it: (physical offset, key) each."""
    slots, entries = [0] * SLOTS, bytearray(20 * ENTRIES)
    for number, (physical, key) in enumerate(placed, 1):
        code = index_hash(key)
        struct.pack_into(">iqii", entries, 20 * number, code, physical, 0, slots[code % SLOTS])
        slots[code % SLOTS] = number
    header = struct.pack(">qqqqii", 1, 2, placed[0][0], placed[-1][0], len(placed), len(placed) + 1)
    (root / "index").mkdir(exist_ok=True)
    path = root / "index" / "20261121120000000"
    path.write_bytes(header + struct.pack(f">{SLOTS}i", *slots) + entries)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def queue_file(store: StoreFiles, topic: str, queue_id: int = 0) -> Path:
    return next((store.root / "consumequeue" / topic / str(queue_id)).iterdir())


def unit(store: StoreFiles, topic: str, offset: int, queue_id: int = 0) -> tuple[int, int, int]:
    raw = queue_file(store, topic, queue_id).read_bytes()
    found: tuple[int, int, int] = struct.unpack_from(">qiq", raw, offset * 20)
    return found


def crc(store: StoreFiles) -> None:
    store.flip(unit(store, "orders", 5)[0] + 90)


def unknown_magic(store: StoreFiles) -> None:
    store.flip(unit(store, "orders", 5)[0] + 5)


def torn(store: StoreFiles) -> None:
    put = store.put(b"\x01" * 500, unit=False)
    store.write(put.physical_offset + 150, bytes(put.size - 150))


def lost_segment(store: StoreFiles) -> None:
    for number in range(200):
        store.put(bytes(200), "payments", number % 2)
    store.log_file(store.segment_bytes).unlink()


def wrong_size(store: StoreFiles) -> None:
    physical, size, code = unit(store, "orders", 4)
    overwrite(queue_file(store, "orders"), 4 * 20, pack_unit(physical, size + 1, code))


def wrong_tags_code(store: StoreFiles) -> None:
    physical, size, code = unit(store, "orders", 4)
    overwrite(queue_file(store, "orders"), 4 * 20, pack_unit(physical, size, code + 1))


def dangling(store: StoreFiles) -> None:
    physical, size, code = unit(store, "orders", 4)
    overwrite(queue_file(store, "orders"), 4 * 20, pack_unit(physical + 3, size, code))


def beyond(store: StoreFiles) -> None:
    store.write_unit("payments", 0, store.offsets["payments", 0], store.end + 1000, 200, 0)


def hole(store: StoreFiles) -> None:
    overwrite(queue_file(store, "orders"), 4 * 20, bytes(20))


def no_unit(store: StoreFiles) -> None:
    store.put(b"without", "orders", unit=False)
    store.put(b"after", "payments")


def swapped(store: StoreFiles) -> None:
    one, other = unit(store, "orders", 3), unit(store, "orders", 4)
    overwrite(queue_file(store, "orders"), 3 * 20, pack_unit(*other) + pack_unit(*one))


def lost_queue_file(store: StoreFiles) -> None:
    path = queue_file(store, "orders")
    whole = path.read_bytes()
    path.write_bytes(whole[: 8 * 20])
    (path.parent / f"{16 * 20:020d}").write_bytes(whole[16 * 20 :])


def index_of_nothing(store: StoreFiles) -> None:
    place = 40 + 4 * SLOTS + 20 * 7
    overwrite(store.root / "index" / "20261121120000000", place, struct.pack(">iq", 77, 33))


def key_not_indexed(store: StoreFiles) -> None:
    path = store.root / "index" / "20261121120000000"
    place = 40 + 4 * SLOTS + 20 * 5
    raw = path.read_bytes()
    overwrite(path, place, raw[place + 20 : place + 40][:12])  # twice the entry behind it


def index_count(store: StoreFiles) -> None:
    overwrite(store.root / "index" / "20261121120000000", 36, struct.pack(">i", ENTRIES + 1))


def offset_beyond(store: StoreFiles) -> None:
    commit(store.root, {"orders@g1": {0: 21, 1: 20}})


def offsets_unreadable(store: StoreFiles) -> None:
    (store.root / "config" / "consumerOffset.json").write_bytes(b"\x00" * 100)


def undecided(store: StoreFiles) -> None:
    store.put(b"half 1", HALF_TOPIC, properties="REAL_TOPIC\x01orders\x02PGROUP\x01pg\x02UNIQ_KEY\x01U1\x02")


DEFECTS: list[tuple[Callable[[StoreFiles], None], str, str, str]] = [
    (crc, "records", "error", "checksum"),
    (unknown_magic, "records", "error", "magic number"),
    (torn, "records", "error", "add up"),
    (lost_segment, "records", "error", "gap"),
    (wrong_size, "queues", "error", "the unit says"),
    (wrong_tags_code, "queues", "error", "the unit says"),
    (dangling, "queues", "error", "no sound record begins"),
    (beyond, "queues", "error", "beyond the end of the log"),
    (hole, "queues", "error", "1 units before it were never written"),
    (no_unit, "queues", "error", "has no unit"),
    (swapped, "queues", "error", "the unit says"),
    (lost_queue_file, "queues", "error", "a file of the queue is missing"),
    (index_of_nothing, "index", "error", "no such key"),
    (key_not_indexed, "index", "error", "is not in the index"),
    (index_count, "index", "error", "its header counts"),
    (offset_beyond, "offsets", "error", "group g1 is at 21, the queue ends at 20"),
    (offsets_unreadable, "offsets", "error", ""),
    (undecided, "transactions", "warning", "for topic orders of producer group pg id U1"),
]


def spark_jobs(spark: SparkSession) -> int:
    """The jobs that Spark has begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """One audit of many stores: two sound ones, and one per defect."""
    from orbitmq.spark.jobs.audit.auditing import AuditOptions, run

    folder = tmp_path_factory.mktemp("stores")
    healthy(folder / "sound")
    shutil.copytree(folder / "sound", folder / "sound-too")
    for plant, *_ in DEFECTS:
        plant(healthy(folder / plant.__name__))
    killed = healthy(folder / "killed")
    killed.put(b"before", "orders", unit=False)
    at_ms = killed.time_ms + 3000  # a start goes back by three seconds
    no_unit(killed)
    (killed.root / "abort").write_bytes(b"1")
    (killed.root / "checkpoint").write_bytes(at_ms.to_bytes(8, "big") * 2 + bytes(4080))
    jobs = spark_jobs(spark)
    done = run(AuditOptions((str(folder / "*"),), split_bytes=40_000))
    # Each job costs CPU time, however little there is to read.
    assert spark_jobs(spark) - jobs <= 40, "the checks go over the same joins more than once"
    return done


def of_store(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if Path(row["store"]).name == name]


@pytest.mark.parametrize("name", ["sound", "sound-too"])
def test_nothing_is_found_where_nothing_is_wrong(result: AuditResult, name: str) -> None:
    assert of_store(result.findings, name) == []
    assert of_store(result.summary, name)[0] | {"store": ""} == {
        "store": "",
        "records": 62,
        "bytes": of_store(result.summary, "sound")[0]["bytes"],
        "queues": 6,
        "units": 62,
        "indexFiles": 1,
    }


@pytest.mark.parametrize(
    ("plant", "check", "severity", "text"), DEFECTS, ids=[plant.__name__ for plant, *_ in DEFECTS]
)
def test_a_planted_defect_is_found(
    result: AuditResult, plant: Callable[[StoreFiles], None], check: str, severity: str, text: str
) -> None:
    found = of_store(result.findings, plant.__name__)
    hits = [row for row in found if (row["check"], row["severity"]) == (check, severity)]
    assert any(text in row["detail"] for row in hits), found
    counted = sum(row["findings"] for row in of_store(result.counts, plant.__name__))
    assert counted == len(found)


def test_units_that_a_start_makes_anew_are_not_missed(result: AuditResult) -> None:
    found = of_store(result.findings, "killed")
    assert [(row["check"], row["queueOffset"], row["detail"]) for row in found] == [
        ("queues", 20, "the record has no unit in its queue")
    ]


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    from orbitmq.cli.app import app

    store = healthy(tmp_path / "store")
    done = CliRunner().invoke(app, ["job", "audit", str(store.root), "--json", "--check", "records"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["findings"] == []
    crc(store)
    page = tmp_path / "audit.html"
    done = CliRunner().invoke(
        app, ["job", "audit", str(store.root), "--check", "records", "--report", str(page)]
    )
    assert done.exit_code == 1
    assert "the body does not have its checksum" in done.stdout
    assert "1 errors, 0 warnings" in done.stdout
    assert "the body does not have its checksum" in page.read_text()


def test_what_brokers_write_is_sound(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> None:
    from orbitmq.spark.jobs.audit.auditing import AuditOptions, run
    from orbitmq.store.snapshot import take_snapshot

    publish(
        server,
        topic,
        [
            Outgoing(
                b"message %d" % number,
                queue_id=number % 4,
                properties={"TAGS": "a", "KEYS": f"k{number} other", "UNIQ_KEY": f"7F{number:030X}"},
            )
            for number in range(100)
        ],
    )
    publish(server, topic, [Outgoing(b"later", properties={"DELAY": "18"})])
    folder = server.store if isinstance(server, Apache) else server.data_dir
    take_snapshot(folder, tmp_path / "copy")
    # A copy of a live store may be ahead in its log and behind in its index: never the other way round.
    result = run(AuditOptions((str(tmp_path / "copy"),)))
    assert [row for row in result.findings if row["severity"] == "error"] == []
    assert result.summary[0]["records"] >= 101
