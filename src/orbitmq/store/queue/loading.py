"""The files of consume queues as a start finds them: which of their units count, and what goes.

A queue ends with its last valid unit. Files that do not join on, and whatever stands behind the end, are
removed or wiped: recovery takes from the log what is missing then.
"""

from __future__ import annotations

import logging

from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import segment_name, segment_starts
from orbitmq.store.queue.consume_queue import (
    BLANK_SIZE,
    UNIT,
    UNIT_BYTES,
    ConsumeQueue,
    QueueTable,
    queue_file,
    queue_folder,
)
from orbitmq.store.queue.units_cy import count_valid

log = logging.getLogger(__name__)


def load_queues(table: QueueTable) -> None:
    """Takes the queues of the folder into the table, each up to its last valid unit. Raises StoreCorrupt."""
    for topic in table.disk.names(table.folder):
        try:
            names = table.disk.names(table.folder / topic)
        except NotADirectoryError:
            log.warning("%s is no topic: left alone", table.folder / topic)
            continue
        for name in names:
            if not (name.isdigit() and name.isascii()):
                log.warning("%s is no queue: left alone", table.folder / topic / name)
                continue
            _load_queue(table, topic, int(name))


def _load_queue(table: QueueTable, topic: str, queue_id: int) -> None:
    folder = table.folder.joinpath(topic, str(queue_id))
    found = segment_starts(table.disk.names(folder))
    if not found:
        return
    queue = table.make(topic, queue_id, found[0] // UNIT_BYTES)
    starts = _joined_starts(table, queue, found)
    if len(starts) > 1 and not _is_in_order(table, queue, starts):
        log.warning("%s: its files are damaged, or not in order: they are made anew from the log", folder)
        for start in starts:
            table.disk.remove(folder / segment_name(start))
        table.remove(queue)
        table.is_damaged = True
        return
    end = starts[-1]
    for start in starts[-3:]:
        valid, last_end = _valid_in_file(table, queue, start)
        queue.last_unit_end = max(queue.last_unit_end, last_end)
        end = start + valid * UNIT_BYTES
        if end < start + table.file_bytes:
            break
    set_end(queue, end // UNIT_BYTES)
    queue.base = -1
    behind = [start for start in starts if start > end or (start == end and start != starts[0])]
    for start in behind:
        table.disk.remove(folder / segment_name(start))
        table.disk.sync_folder(folder)
    if behind or len(starts) < len(found):
        table.reading.forget(queue)  # files that were removed may be made again under the same names


def _joined_starts(table: QueueTable, queue: ConsumeQueue, found: list[int]) -> list[int]:
    """The files of a queue from the first on, up to a gap; of the right size."""
    joined: list[int] = []
    for start in found:
        path = queue_file(table.folder, queue, start)
        if start % table.file_bytes:
            raise StoreCorrupt(
                path,
                f"a consume queue with files of {table.file_bytes} bytes has none that begins there",
                "set mappedFileSizeConsumeQueue to the size of these files",
            )
        if joined and start != joined[-1] + table.file_bytes:
            log.warning("%s: the file before it is missing; its units are taken from the log", path)
            table.disk.remove(path)
            continue
        file = table.reading.get(queue, start, create=True)
        if file is not None and file.size != table.file_bytes:
            raise StoreCorrupt(
                path,
                f"the file has {file.size} bytes instead of {table.file_bytes}",
                f"set mappedFileSizeConsumeQueue={file.size} if the store was made so, or remove the file",
            )
        joined.append(start)
    return joined


def _is_in_order(table: QueueTable, queue: ConsumeQueue, starts: list[int]) -> bool:
    """True if each file begins behind the end of the one before, and all but the newest ones are full.

    Looks at the first and the last unit of each: enough to notice a file that was cut off, emptied, replaced.
    """
    behind = -1
    for start in starts:
        first = start // UNIT_BYTES
        units = table.read_file(table.reading, queue, first, 1)
        last = table.read_file(table.reading, queue, first + table.file_bytes // UNIT_BYTES - 1, 1)
        for data, must_be in ((units, start != starts[-1]), (last, start not in starts[-3:])):
            if not count_valid(data):
                if must_be:
                    return False
                continue
            physical_offset, size, _ = UNIT.unpack(data)
            if size != BLANK_SIZE:
                if physical_offset <= behind:
                    return False
                behind = physical_offset
    return True


def _valid_in_file(table: QueueTable, queue: ConsumeQueue, start: int) -> tuple[int, int]:
    """Number of valid units at the beginning of a file, and the largest end of a message among them."""
    valid = 0
    last_end = 0
    per_read = (64 << 10) // UNIT_BYTES
    in_file = table.file_bytes // UNIT_BYTES
    while valid < in_file:
        units = table.read_file(table.reading, queue, start // UNIT_BYTES + valid, per_read)
        count = count_valid(units)
        if count:
            physical_offset, size, _ = UNIT.unpack_from(units, (count - 1) * UNIT_BYTES)
            if size != BLANK_SIZE:
                last_end = max(last_end, physical_offset + size)
        valid += count
        if count * UNIT_BYTES < len(units) or not units:
            break
    return valid, last_end


def set_end(queue: ConsumeQueue, end: int) -> None:
    """Makes what is in files the whole queue."""
    queue.max_offset = queue.visible = queue.announced = queue.tail_start = queue.written_to = end
    queue.min_offset = min(queue.min_offset, end)
    queue.tail = bytearray()


def drop_units_from(table: QueueTable, queue: ConsumeQueue, physical_offset: int) -> None:
    """Drops units of messages that are not in the log, and wipes whatever stands behind the last unit."""
    end = queue.max_offset
    while end > queue.min_offset:
        unit = table.unit(queue, end - 1)
        if unit is None or unit[0] < physical_offset:
            break
        end -= 1
    if queue.tail and end >= queue.tail_start:
        del queue.tail[(end - queue.tail_start) * UNIT_BYTES :]
        queue.max_offset = queue.visible = queue.announced = end
        return
    set_end(queue, end)


def wipe_behind(table: QueueTable, queue: ConsumeQueue) -> list[int]:
    """Nothing stale may stand behind the last unit in a file: a later start would take it for units. Gives
    the starts of the files that have to be synced for that to last.
    """
    folder = queue_folder(table.folder, queue)
    end = queue.written_to * UNIT_BYTES
    wiped = []
    for start in table.file_starts(queue):
        if start < end < start + table.file_bytes or start == end:
            file = table.disk.open(folder / segment_name(start))
            file.cut(max(0, end - start))
            file.close()
            wiped.append(start)
        elif start > end:
            table.disk.remove(folder / segment_name(start))
            table.disk.sync_folder(folder)
    table.reading.forget(queue)
    return wiped
