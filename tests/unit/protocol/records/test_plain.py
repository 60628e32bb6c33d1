"""Records for the interpreter: here what compiled code asks it for as well. `tests/wire` has both ways."""

import pytest

from orbitmq.protocol.records.plain import behind_bad_record
from tests.kit.stored_records import stored_record


def test_a_bad_record_is_stepped_over_by_its_size() -> None:
    record = stored_record(0)
    assert behind_bad_record(record + b"more", 0) == len(record)
    assert behind_bad_record(record + record, len(record)) == 2 * len(record)


@pytest.mark.parametrize("size", [0, -1, 90, 1 << 30])
def test_behind_a_size_that_cannot_be_right_nothing_is_read(size: int) -> None:
    record = size.to_bytes(4, "big", signed=True) + stored_record(0)[4:] + bytes(200)
    assert behind_bad_record(record, 0) == len(record)


def test_a_record_that_is_cut_off_is_the_last() -> None:
    record = stored_record(0)
    assert behind_bad_record(record[:-1], 0) == len(record) - 1
    assert behind_bad_record(record[:2], 0) == 2
    assert behind_bad_record(record, len(record)) == len(record)
