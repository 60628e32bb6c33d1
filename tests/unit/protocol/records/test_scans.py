"""The table of positions that a walk over records makes."""

from orbitmq.protocol.records.scanning_cy import locate_records
from tests.kit.stored_records import stored_record


def test_the_table_has_the_position_of_each_record() -> None:
    records = [stored_record(number, bytes(100 * number)) for number in range(5)]
    found = locate_records(b"".join(records))
    expected = [sum(map(len, records[:number])) for number in range(5)]
    assert [found.position_of(number) for number in range(found.record_count)] == expected


def test_without_records_the_table_is_empty() -> None:
    assert locate_records(b"").record_count == 0
