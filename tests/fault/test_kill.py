"""The process dies while it stores: whatever it had acknowledged is there afterwards, once, in its place.

Once at any moment, and once at each named failpoint of the store.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import MessageStore, StoreOptions
from orbitmq.store.config_files import read_text
from tests.kit.brokers import others_at_night
from tests.kit.store import NOW, SEGMENT, query, read_queue

ROOT = Path(__file__).parents[2]
POINTS = sorted(
    {
        point
        for path in (ROOT / "src" / "orbitmq" / "store").glob("*.py")
        for point in re.findall(r'failpoints\.hit\("([\w.]+)"\)', path.read_text())
        if not point.startswith("truncation.")
    }
)
"""The failpoints that a store passes which only stores; the tests of truncation have theirs."""


def options(root: Path) -> StoreOptions:
    return StoreOptions(
        root=root,
        mapped_file_size_commit_log=SEGMENT * 16,
        mapped_file_size_consume_queue=20 * 500,
        max_hash_slot_num=500,
        max_index_num=20_000,
    )


Told = dict[int, tuple[int, int]]
"""Acknowledged messages: number -> (queue offset, physical offset)."""


def told_until_killed(root: Path, flush: str, first: int, *dies_at: str, least: int | None = None) -> Told:
    """Lines of the appender until it dies at a failpoint, or is killed after so many messages."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fault.appender", str(root), flush, str(first), *dies_at],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if len(lines) == least:
                process.kill()
    assert process.returncode == -9
    told: Told = {}
    for line in lines:
        if line.endswith(b"\n"):
            number, queue_offset, physical_offset = map(int, line.split())
            told[number] = queue_offset, physical_offset
    return told


def check(root: Path, told: Told) -> None:
    """Opens what is left, and compares."""
    store = MessageStore.open(options(root), NOW)
    found: Told = {}
    for queue_id in range(4):
        records = read_queue(store, "T", queue_id)
        assert [record.queue_offset for record in records] == list(range(len(records)))
        for record in records:
            assert record.flag not in found
            assert record.body == b"%d " % record.flag * 30
            found[record.flag] = record.queue_offset, record.physical_offset
    assert told.items() <= found.items()
    assert store.figures().bad_records == 0
    for number in list(told)[::100]:
        (record,) = query(store, "T", f"ID{number:08d}", 2, 0, 1 << 60, "U").records
        assert decode_record(record).flag == number
        del record
    store.close()
    table = read_text(root / "config" / "appended.json", bool).text
    assert not told or json.loads(table or "")["number"] >= max(told) - 19


LIFE_NUMBERS = 1_000_000
"""No life of the appender gets so far."""


@pytest.mark.parametrize("flush", others_at_night(["ASYNC_FLUSH", "SYNC_FLUSH"], ["ASYNC_FLUSH"]))
def test_every_acknowledged_message_survives_kills(tmp_path: Path, flush: str) -> None:
    told: Told = {}
    for life, least in enumerate((1, 2500, 900)):
        told |= told_until_killed(tmp_path, flush, life * LIFE_NUMBERS, least=least)
    check(tmp_path, told)


@pytest.mark.parametrize("point", POINTS)
def test_every_acknowledged_message_survives_an_end_at_a_failpoint(tmp_path: Path, point: str) -> None:
    told: Told = {}
    for life, times in enumerate(("3", "1", "2")):
        told |= told_until_killed(tmp_path, "SYNC_FLUSH", life * LIFE_NUMBERS, point, times)
    check(tmp_path, told)
