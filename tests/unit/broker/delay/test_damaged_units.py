"""Units of waiting queues in which a damaged file holds other numbers: what they point to is not touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delay.delay_cy import copy_due
from orbitmq.broker.delay.timer_intake_cy import plain_units
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.store.log.log_writer import LogWriter
from tests.kit.real_broker import NOW, RealBroker


def as_delayed(units: bytes, writer: LogWriter) -> Any:
    return copy_due(units, NOW, writer, ())


def as_timers(units: bytes, writer: LogWriter) -> Any:
    return plain_units(units, NOW, writer, 0, 9, lambda _: (0, 0, 0), 1000, 1 << 30, 0, 1 << 40, -1)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("take", [as_delayed, as_timers])
@pytest.mark.parametrize("size", [91, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("physical_offset", [(1 << 63) - 91, (1 << 63) - 1, -(1 << 63), -1, 1 << 40])
def test_offsets_near_the_ends_of_numbers_are_left(
    tmp_path: Path, take: Callable[[bytes, LogWriter], Any], size: int, physical_offset: int
) -> None:
    broker = RealBroker(tmp_path / "store", mappedFileSizeCommitLog=1 << 16)
    body = bytes(30_000)
    for _ in range(4):  # the last segment does not begin at 0
        broker.send(body=body)
    writer = broker.store.appending.reserve(NOW)
    assert writer is not None
    assert writer.segment_start > 0
    assert take(UNIT.pack(physical_offset, size, 0), writer) is None
    broker.store.appending.rollback(writer)
    broker.close()
