"""The files of a store against those that Apache's broker wrote for the same messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.records.ids import pack_host
from orbitmq.store import MessageStore, PendingMessage, PutStatus, StoreOptions
from orbitmq.store.files import RealDisk
from orbitmq.store.queue.consume_queue import QueueTable
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.recovery.checkpoint import CHECKPOINT_BYTES, Checkpoint
from tests.kit.store import query

VECTORS = Path(__file__).parent / "vectors"
SEGMENT_BYTES = 1 << 20


def vector(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return loaded


RECORDS: list[dict[str, Any]] = [
    record for record in vector("store_messages")["records"] if not record.get("appendPropCRC")
]
RECORDS = [record for record in RECORDS if "physicalOffset" in record and "queueId" in record]


def host(text: str) -> bytes:
    address, _, port = text.rpartition(":")
    return pack_host(address.strip("[]"), int(port))


def pending(record: dict[str, Any], properties: str | None = None) -> PendingMessage:
    return PendingMessage(
        record["topic"],
        record["queueId"],
        record["flag"],
        record["sysFlag"],
        record["bornTimestamp"],
        host(record["bornHost"]),
        host(record["storeHost"]),
        record["reconsumeTimes"],
        record["preparedTransactionOffset"],
        bytes.fromhex(record["body_hex"]),
        (record["propertiesString"] if properties is None else properties).encode(),
    )


def options(root: Path, **values: Any) -> StoreOptions:
    return StoreOptions(
        root=root,
        mapped_file_size_commit_log=SEGMENT_BYTES,
        max_hash_slot_num=100,
        max_index_num=400,
        **values,
    )


def test_appends_write_apaches_bytes(tmp_path: Path) -> None:
    store = MessageStore.open(options(tmp_path), 0)
    expected = b""
    for record in RECORDS:
        if record["sysFlag"] & 0x80:
            break  # batch queues are not supported
        appended = store.append(pending(record), record["storeTimestamp"])
        assert appended.status is PutStatus.PUT_OK
        assert appended.physical_offset == record["physicalOffset"]
        assert appended.queue_offset == record["queueOffset"]
        assert appended.size == record["wroteBytes"]
        expected += bytes.fromhex(record["record_hex"])
    store.close()
    written = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    assert len(expected) > 1000
    assert written[: len(expected)] == expected
    assert len(written) == SEGMENT_BYTES


def test_appended_property_checksums_are_apaches(tmp_path: Path) -> None:
    store = MessageStore.open(options(tmp_path, enabled_append_prop_crc=True), 0)
    expected = b""
    for record in vector("store_messages")["records"]:
        if record.get("appendPropCRC"):
            appended = store.append(pending(record), record["storeTimestamp"])
            assert appended.size == record["wroteBytes"]
            expected += bytes.fromhex(record["record_hex"])
    store.close()
    assert (tmp_path / "commitlog" / f"{0:020d}").read_bytes().startswith(expected)


@pytest.fixture
def apaches_log(tmp_path: Path) -> Path:
    """A folder with nothing but Apache's log, as after a crash."""
    log = b"".join(bytes.fromhex(record["record_hex"]) for record in RECORDS)
    folder = tmp_path / "store"
    (folder / "commitlog").mkdir(parents=True)
    (folder / "commitlog" / f"{0:020d}").write_bytes(log.ljust(SEGMENT_BYTES, b"\x00"))
    (folder / "abort").write_text("1")
    return folder


def test_queues_rebuilt_from_the_log_have_apaches_units(apaches_log: Path) -> None:
    MessageStore.open(options(apaches_log), RECORDS[-1]["storeTimestamp"]).close()
    for name, units in vector("consume_queue")["units"].items():
        if name.startswith("batch"):
            continue
        written = (apaches_log / name / f"{0:020d}").read_bytes()
        assert len(written) == 6_000_000
        assert written.rstrip(b"\x00").hex() == units.rstrip("0") or written.startswith(bytes.fromhex(units))
        assert not any(written[len(units) // 2 :])


def test_the_index_rebuilt_from_the_log_has_apaches_bytes(apaches_log: Path) -> None:
    store = MessageStore.open(options(apaches_log), RECORDS[-1]["storeTimestamp"])
    found = query(store, "TopicTest", "k2", 32, 0, 1 << 62)
    assert len(found.records) == 3
    del found
    store.close()
    (file,) = (apaches_log / "index").iterdir()
    expected = vector("index_file")
    assert len(file.name) == len(expected["file_name"])
    assert file.read_bytes() == bytes.fromhex(expected["file_hex"]).ljust(expected["file_size"], b"\x00")


def test_the_checkpoint_has_apaches_bytes(tmp_path: Path) -> None:
    expected = vector("checkpoint")
    path = tmp_path / "checkpoint"
    first = bytes.fromhex(expected["first48_hex"])
    path.write_bytes(first.ljust(expected["size"], b"\x00"))
    checkpoint = Checkpoint.load(RealDisk(), path)
    assert checkpoint.physical_timestamp_ms == checkpoint.logics_timestamp_ms == RECORDS[-1]["storeTimestamp"]
    assert checkpoint.to_bytes() == path.read_bytes()
    checkpoint.index_timestamp_ms = 7
    checkpoint.save()
    assert path.stat().st_size == CHECKPOINT_BYTES
    assert Checkpoint.load(RealDisk(), path).index_timestamp_ms == 7


def test_addresses_of_extension_units_lead_to_tags(tmp_path: Path) -> None:
    units = vector("consume_queue_ext")["units"]
    units = [unit for unit in units if (unit["topic"], unit["queueId"]) == ("T1", 0)]
    folder = tmp_path / "T1" / "0"
    folder.mkdir(parents=True)
    data = b"".join(bytes.fromhex(unit["ext_hex"]) for unit in units)
    (folder / f"{0:020d}").write_bytes(data.ljust(4096, b"\x00"))
    table = QueueTable(RealDisk(), tmp_path / "consumequeue", 6_000_000)
    files = ExtensionFiles(RealDisk(), tmp_path, 4096, table)
    queue = table.make("T1", 0)
    for unit in units:
        address = int.from_bytes(bytes.fromhex(unit["cq_hex"])[12:], "big", signed=True)
        assert files.unit(queue, address) == (unit["tagsCode"], unit["storeTime"], b"")
    assert files.tags_code(queue, 12345) == 12345
    assert files.tags_code(queue, address + 4000) is None
