"""Taking up transactions where the log of the last run ends, OrbitMQ's own or Apache's.

Op records say which half messages have ended. Facts that are not in them are found in two places. A half
message of which a newer copy is there was replaced, and the crash came before the op record. And what was
published is in the log: without an op record where a crash cut it off, or where Apache's broker was the last
one. That broker keeps decisions in memory for up to 3 s; half messages decided meanwhile it may copy all the
same, and ask about them again. All this is noted before anybody is asked here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.transaction.records import QUEUE_ID, Half, op_offsets
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.broker.transaction.window import HalfState
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from orbitmq.protocol.records.message import TRANSACTION_COMMIT, TRANSACTION_MASK, BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import MessageStore
from orbitmq.store.option_rows import StoreSettings

log = logging.getLogger(__name__)

RECORDS_PER_SLICE = 250
"""Number of records that are looked at before others may go first."""
SEARCH_BYTES = 64 << 20
"""Distance from the log's end within which it is searched for published messages without an op record."""


@dataclass(eq=False, repr=False)
class TransactionLoading:
    """Fills a `Transactions` from the store. `run` is a generator: each step takes a few milliseconds."""

    _transactions: Transactions
    _settings: StoreSettings
    _store: MessageStore
    _offsets: OffsetTable

    def __post_init__(self) -> None:
        self._steps = 0
        self._ended: list[int] = []
        """Half messages that ended without an op record that says so."""
        self._has_apache_copies = False

    def run(self, now: int) -> Iterator[None]:
        """Reads op records, then the half messages that are open, then the end of the log."""
        transactions = self._transactions
        yield from self._read_ops()
        yield from self._read_halves(now)
        if transactions.figures.open:
            yield from self._drop_published(now)
        transactions.write_ops(self._ended, now)
        transactions.note_positions(now)
        if transactions.figures.open or self._ended:
            log.info(
                "transactions: %d half messages are open; of %d a crash had left unsaid that they have ended",
                transactions.figures.open_count,
                len(self._ended),
            )

    def _pause(self) -> Iterator[None]:
        self._steps += 1
        if self._steps % RECORDS_PER_SLICE == 0:
            yield

    def _position(self, topic: str) -> tuple[int, int]:
        first = max(0, self._store.min_offset(topic, QUEUE_ID))
        end = max(0, self._store.max_offset(topic, QUEUE_ID))
        saved = self._offsets.get(TRANSACTION_GROUP, topic, QUEUE_ID)
        if saved > end:
            log.warning("%s: offset %d of %s is behind its end, %d", topic, saved, TRANSACTION_GROUP, end)
        return min(max(saved, first), end), end

    def _read_ops(self) -> Iterator[None]:
        transactions = self._transactions
        window, ops = transactions.window, transactions.ops
        window.start, end = self._position(HALF_TOPIC)
        ops.start, op_end = self._position(OP_HALF_TOPIC)
        for op_offset in range(ops.start, op_end):
            yield from self._pause()
            unit = self._store.physical_offset_of(OP_HALF_TOPIC, QUEUE_ID, op_offset)
            record = None if unit is None else self._store.record_at(unit[0])
            named = [] if record is None else op_offsets(decode_record(record).body)
            known = [offset for offset in named if offset < end]
            if not named:
                transactions.figures.unreadable += 1
            for offset in known:
                window[offset] = HalfState.ENDED
            ops.add(op_offset, max(known, default=-1))

    def _open_halves(self) -> Iterator[tuple[int, Half | None]]:
        transactions = self._transactions
        at, end = transactions.window.start, transactions.end
        while (offset := transactions.window.next_open(at, end)) is not None:
            at = offset + 1
            yield offset, transactions.half(offset)

    def _read_halves(self, now: int) -> Iterator[None]:
        transactions = self._transactions
        window, newest = transactions.window, transactions.newest
        for offset, half in self._open_halves():
            yield from self._pause()
            if half is None:
                transactions.pass_unreadable(offset)
                continue
            root = half.root
            if root != offset:
                older = newest.get(root, root)
                newest[root] = offset
                if older >= window.start and window[older] is HalfState.OPEN:
                    window[older] = HalfState.COPIED
                    self._ended.append(older)
                    continue
            elif half.check_times:
                self._has_apache_copies = True
            transactions.figures.opened(half.topic, half.group, now)

    def _drop_published(self, now: int) -> Iterator[None]:
        """Ends open half messages that were published, and originals of which Apache's broker made copies."""
        published: set[tuple[str, int]] = set()
        yield from self._read_end_of_log(published)
        if not published and not self._has_apache_copies:
            return
        newest: dict[tuple[str, int], Half] = {}
        for _, half in self._open_halves():
            yield from self._pause()
            if half is None:
                continue
            identity = half.identity
            if identity in published:
                self._end(half, now)
            elif self._has_apache_copies and half.unique_id:
                older = newest.get(identity)
                newest[identity] = half
                if older is not None and half.check_times > older.check_times:
                    self._end(older, now)

    def _end(self, half: Half, now: int) -> None:
        self._transactions.found_ended(half, now)
        self._ended.append(half.offset)

    def _read_end_of_log(self, published: set[tuple[str, int]]) -> Iterator[None]:
        physical_offset = self._search_start()
        end = self._store.max_physical
        segment_bytes = self._settings.mapped_file_size_commit_log
        while physical_offset < end:
            yield from self._pause()
            record = self._store.record_at(physical_offset)
            if record is None:
                # The rest of a segment is blank (or damaged): records continue in the next one.
                physical_offset += segment_bytes - physical_offset % segment_bytes
                continue
            _note_published(record, published)
            physical_offset += len(record)

    def _search_start(self) -> int:
        """Begin of the first half message or op record in the last SEARCH_BYTES; else the log's end."""
        end = self._store.max_physical
        return min(self._first_from(topic, end - SEARCH_BYTES) for topic in (HALF_TOPIC, OP_HALF_TOPIC))

    def _first_from(self, topic: str, physical_offset: int) -> int:
        first = max(0, self._store.min_offset(topic, QUEUE_ID))
        behind = end = max(0, self._store.max_offset(topic, QUEUE_ID))
        while first < behind:
            middle = (first + behind) // 2
            unit = self._store.physical_offset_of(topic, QUEUE_ID, middle)
            if unit is None or unit[0] < physical_offset:
                first = middle + 1
            else:
                behind = middle
        unit = self._store.physical_offset_of(topic, QUEUE_ID, first) if first < end else None
        return self._store.max_physical if unit is None else unit[0]


def _note_published(record: bytes | memoryview, published: set[tuple[str, int]]) -> None:
    try:
        message = decode_record(record)
    except BadRecord:
        return
    unique_id = message.unique_id
    if unique_id and message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
        published.add((unique_id, message.born_timestamp))
