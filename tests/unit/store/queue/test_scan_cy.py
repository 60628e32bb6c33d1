"""Units in which a damaged file holds other numbers: they are told as bad, and what is sound is served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.store.queue.scan_cy import Picked

START = 1 << 20


def one_segment() -> Any:
    out = bytearray(200)
    size = encode_record(out, 0, 3, 0, 0, START, 0, 1, bytes(8), 1, bytes(8), 0, 0, b"body", b"T", b"")
    segment = SimpleNamespace(start=START, wrote=size, view=memoryview(bytes(out)))
    return SimpleNamespace(
        segment=segment,
        find=lambda physical: segment if START <= physical < START + size else None,
        next_segment_start=lambda physical: physical + 1,
        resident_to=lambda physical, size: physical + size,
    )


@pytest.mark.parametrize("good_first", [True, False])
@pytest.mark.parametrize("physical_offset", [(1 << 63) - 1, (1 << 63) - 91, 1 << 62])
@pytest.mark.parametrize("size", [91, 0x7FFFFFFE])
def test_offsets_near_the_end_of_numbers(good_first: bool, physical_offset: int, size: int) -> None:
    log = one_segment()
    good, bad = UNIT.pack(START, log.segment.wrote, 0), UNIT.pack(physical_offset, size, 0)
    units, first = (good + bad, 0) if good_first else (bad + good, -1)
    limits = (1 << 40, 32, 1 << 40, 32)
    picked = Picked(3, b"T", None, True, 32, 1 << 40, limits, START + 1000, 1 << 30, 0, log, False)
    picked.pick(units, first)
    assert picked.count == 1
    assert [physical for _, physical in picked.bad] == [physical_offset]
