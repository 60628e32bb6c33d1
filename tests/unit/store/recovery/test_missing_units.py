"""Units put back from records: those of a queue in a row, gaps, and queue offsets that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import ScannedRecord
from orbitmq.store.recovery.missing_units import MissingUnits
from orbitmq.store.recovery.recovered import Recovered
from orbitmq.store.structures import Structures
from tests.kit.store import filled, opened

COUNT = 10


@pytest.fixture
def records(tmp_path: Path) -> Iterator[list[ScannedRecord]]:
    """The records of ten messages of one queue."""
    store = opened(tmp_path / "messages")
    filled(store, COUNT)
    log = store.log.read(0, store.max_physical)
    yield list(scan_records(log, 0, len(log), 0).records)
    store.close()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Structures]:
    """A store whose queues have no unit."""
    store = opened(tmp_path / "empty")
    yield store.structures
    store.close()


def reading(empty: Structures) -> tuple[MissingUnits, Recovered]:
    found = Recovered()
    return MissingUnits(empty.log, empty.queues, empty.queue_writer, None, found, (1_000,), {}), found


def end_of(empty: Structures) -> int:
    queue = empty.queues.find("T", 0)
    assert queue is not None
    return queue.max_offset


def test_each_record_gets_its_unit_once(records: list[ScannedRecord], empty: Structures) -> None:
    units, found = reading(empty)
    units.put(records)
    units.put(records[-2:])
    assert (end_of(empty), found.rebuilt_units, found.last_record) == (COUNT, COUNT, records[-1][0])
    assert not units.gaps


def test_a_queue_with_a_gap_ends_there_until_it_is_read_again(
    records: list[ScannedRecord], empty: Structures
) -> None:
    units, found = reading(empty)
    units.put(records[:5] + records[6:])
    assert end_of(empty) == 5
    assert [str(queue) for queue in units.gaps] == [str(empty.queues.find("T", 0))]
    units.read_again()
    units.put(records)
    assert (end_of(empty), found.lost_units) == (COUNT, 0)


def test_what_the_log_lacks_when_it_is_read_again_is_lost(
    records: list[ScannedRecord], empty: Structures
) -> None:
    units, found = reading(empty)
    without_two = records[:5] + records[7:]
    units.put(without_two)
    units.read_again()
    units.put(without_two)
    assert (end_of(empty), found.lost_units) == (COUNT, 2), "later messages keep their queue offsets"


def test_a_queue_offset_beyond_all_that_the_log_can_have_lost_is_damage(
    records: list[ScannedRecord], empty: Structures
) -> None:
    units, found = reading(empty)
    wrong: ScannedRecord = (*records[5][:3], 1_000_000, *records[5][4:])
    for _ in range(2):
        units.put([*records[:5], wrong])
    assert end_of(empty) == 5
    assert found.bad_records == [records[5][0]], "it is counted once"
