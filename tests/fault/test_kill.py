"""The process dies while it stores: whatever it had acknowledged is there afterwards, once, in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.protocol.message_cy import decode_record
from orbitmq.store import MessageStore, StoreOptions
from tests.unit.store.kit import NOW, SEGMENT, read_queue

ROOT = Path(__file__).parents[2]


def options(root: Path) -> StoreOptions:
    return StoreOptions(
        root=root,
        mapped_file_size_commit_log=SEGMENT * 16,
        mapped_file_size_consume_queue=20 * 500,
        max_hash_slot_num=500,
        max_index_num=20_000,
    )


def acknowledged_until_killed(root: Path, flush: str, first: int, least: int) -> dict[int, tuple[int, int]]:
    """Runs the appender, kills it after so many messages; gives number -> (queue offset, physical offset)."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fault.appender", str(root), flush, str(first)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if len(lines) >= least:
                process.kill()
                break
        lines += process.stdout.readlines()
    told: dict[int, tuple[int, int]] = {}
    for line in lines:
        if line.endswith(b"\n"):
            number, queue_offset, physical_offset = map(int, line.split())
            told[number] = queue_offset, physical_offset
    return told


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_every_acknowledged_message_survives_kills(tmp_path: Path, flush: str) -> None:
    told: dict[int, tuple[int, int]] = {}
    for least in (1, 2500, 900):
        told |= acknowledged_until_killed(tmp_path, flush, max(told, default=-1) + 1 + 10_000, least)
    store = MessageStore.open(options(tmp_path), NOW)
    found: dict[int, tuple[int, int]] = {}
    for queue_id in range(4):
        records = read_queue(store, "T", queue_id)
        assert [record.queue_offset for record in records] == list(range(len(records)))
        for record in records:
            assert record.flag not in found
            assert record.body == b"%d " % record.flag * 30
            found[record.flag] = record.queue_offset, record.physical_offset
    assert told.items() <= found.items()
    assert store.bad_record_count == 0
    for number in list(told)[::100]:
        (record,) = store.query("T", f"ID{number:08d}", 2, 0, 1 << 60, "U").records
        assert decode_record(record).flag == number
    del record
    store.close()
