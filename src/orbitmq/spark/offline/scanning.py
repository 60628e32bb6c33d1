"""One range of a commit log to Arrow batches: sound records to rows, everything else to bad places."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pyarrow as pa

from orbitmq.protocol.records.message import BLANK_BYTES, FIXED_BYTES
from orbitmq.protocol.records.scans import Stop
from orbitmq.spark.errors import DataLost, SparkSourceError
from orbitmq.spark.offline.log_ranges import LogRange
from orbitmq.spark.offline.planning import BadPlace
from orbitmq.spark.offline.records import (
    LOOKED_BEHIND_BYTES,
    MAX_RECORD_BYTES,
    claimed_size,
    is_zero,
    next_record,
    sound_record_at,
)
from orbitmq.spark.offline.storage import View, open_folder
from orbitmq.spark.read.scanner import RecordScanner

log = logging.getLogger(__name__)


class CutInside(SparkSourceError):
    """A range does not begin where a record does: the file cannot be cut there."""


@dataclass(eq=False, repr=False)
class RangeReader:
    """Reads one range; `bad` holds what was found bad since it was last emptied."""

    _work: LogRange
    _scanner: RecordScanner
    _: KW_ONLY
    max_batch_bytes: int
    storage_options: Mapping[str, Any] | None = None
    fail_on_data_loss: bool = True

    def __post_init__(self) -> None:
        self.bad: list[BadPlace] = []
        self._path = f"{self._work.file.folder}/{self._work.file.name}"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Full batches; what is left stays in the scanner, for the next range."""
        file = self._work.file
        try:
            view = open_folder(file.folder, self.storage_options).view(file.name)
        except FileNotFoundError:
            self._lost(f"{self._path} was planned to be read and is gone (retention)")
            return
        with view:
            yield from self._batches(view)

    def _batches(self, view: View) -> Iterator[pa.RecordBatch]:
        work, base = self._work, self._work.file.start
        end = min(work.end, view.size)
        if end < work.end:
            self._lost(f"{self._path} was planned to be read to {work.end} and now ends at {end}")
        position, needed = work.begin, 0
        while position < end:
            buf, first = view.window(position, needed)
            found = self._scanner.scan_log(
                buf, position - first, min(end - first, len(buf)), base + first, self.max_batch_bytes
            )
            here = first + found.position
            if found.stop is None:
                yield self._scanner.take()
                position, needed = here, 0
                continue
            if found.stop is Stop.BAD and not found.size and self._is_cut_off(buf, first, here, view):
                needed = max(1, claimed_size(buf, here - first)) if here == position else 0
                position = here
                continue
            position, needed = here, 0
            if found.stop is Stop.BAD:
                position = self._step_over(view, here, end, found.reason, found.size)
            elif found.stop is Stop.EMPTY:
                behind = min(end, here + LOOKED_BEHIND_BYTES)
                if work.may_end and next_record(view, base, here, behind) is None:
                    return
                position = self._step_over(view, here, end, "zeros where a record should be", 0)
            elif found.stop is Stop.BLANK:
                left = work.file.size - here
                claimed = claimed_size(buf, here - first)
                if claimed == left:
                    if end < work.file.size and not work.may_end:
                        self._note(
                            here, end - here, "the rest of the file is blank, but records were found there"
                        )
                    return
                reason = f"a blank record of {claimed} bytes, and {left} are left in the file"
                position = self._step_over(view, here, end, reason, BLANK_BYTES)
        if position > end and end < work.file.size:
            raise CutInside(
                f"{self._path} was cut at {end}, inside of a record: a message holds what looks like a "
                "record of that place; splitBytes=0 reads files without cutting them"
            )

    def _lost(self, text: str) -> None:
        if self.fail_on_data_loss:
            raise DataLost(f"{text}; failOnDataLoss=false reads what is left")
        log.warning("%s", text)

    @staticmethod
    def _is_cut_off(buf: Any, first: int, here: int, view: View) -> bool:
        """True if a record is bad only because the window ends inside it."""
        held = len(buf) - (here - first)
        if first + len(buf) >= view.size:
            return False
        size = claimed_size(buf, here - first)
        if held < FIXED_BYTES:
            return True
        return held < size <= min(view.size - here, MAX_RECORD_BYTES)

    def _step_over(self, view: View, here: int, end: int, reason: str, size: int) -> int:
        """Notes what is bad, from `here` to the next sound record, and gives that place."""
        base = self._work.file.start
        following = here + size
        if not size or following > end or not self._is_border(view, following, end):
            found = next_record(view, base, here + 1, end)
            following = end if found is None else found
        length = following - here
        if following == end and self._work.may_end:
            # The part behind a torn record was never written: it is not part of the damage.
            length = _without_zeros(view, here, end)
        self._note(here, length, reason)
        return following

    def _is_border(self, view: View, position: int, end: int) -> bool:
        if position == end or sound_record_at(view, self._work.file.start, position):
            return True
        return view.size - position >= BLANK_BYTES and is_zero(view, position, position + BLANK_BYTES)

    def _note(self, position: int, length: int, reason: str) -> None:
        self.bad.append(BadPlace(self._path, self._work.file.start + position, length, reason))


def _without_zeros(view: View, begin: int, end: int) -> int:
    position, last = begin, begin
    while position < end:
        buf, first = view.window(position, 1)
        stop = min(end - first, len(buf), position - first + (1 << 20))
        piece = bytes(buf[position - first : stop]).rstrip(b"\x00")
        if piece:
            last = position + len(piece)
        position = first + stop
    return max(last - begin, 1)
