"""Ranges of the log without messages of the wanted topics, from consume queues.

Queues are not taken at their word that there is nothing: they may be a copy that is older than the log, or
damaged. A range is left out only if the units of other topics account for every byte of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from struct import Struct

from orbitmq.protocol.names import LMQ_PREFIX
from orbitmq.protocol.records.message import BLANK_BYTES, MAGIC_BLANK
from orbitmq.protocol.records.queue_units import BLANK_SIZE, UNIT_BYTES, unpack_unit
from orbitmq.spark.offline.log_ranges import LogFile, LogRange
from orbitmq.spark.offline.storage import Folder, View, is_segment

CONSUME_QUEUE = "consumequeue"

MOST_FILES = 512
"""Files of queues that are looked at, each with a handle of its own. If there are more, all of the log is
read."""

_SIZES = Struct(">8xi8x")
_BLANK = Struct(">ii")
_BEHIND_ALL = 1 << 62


def holding(
    root: Folder,
    ranges: Sequence[LogRange],
    wanted: Callable[[str], bool],
    view_of: Callable[[LogFile], View],
) -> list[LogRange]:
    """Those of the ranges that may hold records of wanted topics; they are in the order of the log.

    All of them where files cannot be read: they go with retention and with deleted topics meanwhile.
    """
    try:
        with ExitStack() as opened:
            queues = _open_queues(root, wanted, opened)
            if queues is None:
                return list(ranges)
            return [one for one in ranges if not _is_of_others(one, *queues, view_of)]
    except OSError:
        return list(ranges)


def _open_queues(
    root: Folder, wanted: Callable[[str], bool], opened: ExitStack
) -> tuple[list[_Queue], list[_Queue]] | None:
    """The queues of wanted topics, and the others; None where there are too many."""
    asked: list[_Queue] = []
    others: list[_Queue] = []
    files = 0
    for topic in root.folders(CONSUME_QUEUE):
        if topic.startswith(LMQ_PREFIX):
            continue  # its units are of records that other queues have units of as well
        for queue_id in root.folders(f"{CONSUME_QUEUE}/{topic}"):
            folder = f"{CONSUME_QUEUE}/{topic}/{queue_id}"
            # A copy that somebody has left beside would count its units twice.
            sizes = root.files(folder)
            names = sorted(name for name in sizes if is_segment(name) and sizes[name] >= UNIT_BYTES)
            files += len(names)
            if files > MOST_FILES:
                return None
            views = [opened.enter_context(root.view(f"{folder}/{name}")) for name in names]
            (asked if wanted(topic) else others).append(_Queue(views))
    return asked, others


def _is_of_others(
    one: LogRange, asked: Sequence[_Queue], others: Sequence[_Queue], view_of: Callable[[LogFile], View]
) -> bool:
    begin, end = one.file.start + one.begin, one.file.start + one.end
    if any(queue.record_bytes(begin, end) for queue in asked):
        return False
    known_to = one.begin + sum(queue.record_bytes(begin, end) for queue in others)
    if known_to == one.end:
        return True
    if one.end != one.file.size or one.end - known_to < BLANK_BYTES:
        return False
    with view_of(one.file) as view:
        buf, first = view.window(known_to, BLANK_BYTES)
        return _BLANK.unpack_from(buf, known_to - first) == (one.end - known_to, MAGIC_BLANK)


class _Queue:
    """The units of one queue, as one sequence over its files."""

    def __init__(self, files: Sequence[View]) -> None:
        self._files: list[tuple[int, View]] = []
        """The number of the first unit, and the file."""
        self._count = 0
        self._at = 0
        for file in files:
            self._files.append((self._count, file))
            self._count += file.size // UNIT_BYTES

    def record_bytes(self, begin: int, end: int) -> int:
        """The size of all its records that begin in [begin, end) of the log. Ask in the order of the log."""
        low = bisect_left(range(self._count), begin, self._at, key=self._physical_offset)
        high = bisect_left(range(self._count), end, low, key=self._physical_offset)
        self._at = low
        return self._sizes(low, high)

    def _physical_offset(self, number: int) -> int:
        first, view = next(one for one in reversed(self._files) if one[0] <= number)
        buf, _ = view.window(0)
        at = (number - first) * UNIT_BYTES
        unit = unpack_unit(buf[at : at + UNIT_BYTES])
        if unit.is_written:
            return unit.physical_offset
        # Blank units stand before the first one, zeros behind the last one.
        return -1 if unit.size == BLANK_SIZE else _BEHIND_ALL

    def _sizes(self, low: int, high: int) -> int:
        size_bytes = 0
        for first, view in self._files:
            begin = max(0, low - first) * UNIT_BYTES
            end = min(view.size // UNIT_BYTES, high - first) * UNIT_BYTES
            if begin < end:
                buf, _ = view.window(0)
                size_bytes += sum(size for (size,) in _SIZES.iter_unpack(buf[begin:end]))
        return size_bytes
