"""Records to bytes and back for the interpreter, with `struct`.

Each function is the twin of one of `encoding_cy`, `message_cy` or `scanning_cy`, which say what it does.
Compiled code asks here for the words for a record that it has found to be bad.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Any

from orbitmq.protocol.records.checksums_cy import crc32, property_crc_holds
from orbitmq.protocol.records.message import (
    BLANK_BYTES,
    BORN_HOST_V6,
    FIXED_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    STORE_HOST_V6,
    BadRecord,
    RecordTooLarge,
    StoredMessage,
)
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.records.scans import Located, Scan, ScannedRecord, Stop

V1_TOPIC_BYTES = 127
"""The longest topic of a record of version 1."""

_HEAD = Struct(">iiiiiqqiq")
_INT = Struct(">i")
_LONG = Struct(">q")
_RECONSUME = Struct(">iqi")
_SHORT = Struct(">h")
_BLANK = Struct(">ii")


# ---- one record ----


def encode(
    out: Any,
    position: int,
    size: int,
    crc: int,
    numbers: tuple[int, int, int, int, int, int],
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume: tuple[int, int],
    body: Any,
    topic: bytes,
    properties: bytes,
) -> int:
    """Writes a record, whose size is `size` and that of its body; gives its size.

    `numbers` are queue id, flag, queue offset, physical offset, sysFlag and born time; `reconsume` are
    reconsume times and prepared transaction offset. Raises RecordTooLarge, OverflowError.
    """
    body = body if isinstance(body, bytes) else memoryview(body).cast("B")
    size += len(body)
    view = memoryview(out).cast("B")
    if position < 0 or size > len(view) - position or size > 0x7FFFFFFF:
        raise RecordTooLarge(f"{size} bytes do not fit into {max(0, len(view) - position)}")
    is_v1 = len(topic) <= V1_TOPIC_BYTES
    try:
        record = b"".join(
            (
                _HEAD.pack(size, MAGIC_V1 if is_v1 else MAGIC_V2, crc, *numbers),
                born_host,
                _LONG.pack(store_timestamp),
                store_host,
                _RECONSUME.pack(*reconsume, len(body)),
                body,
                len(topic).to_bytes(1 if is_v1 else 2, "big"),
                topic,
                len(properties).to_bytes(2, "big"),
                properties,
            )
        )
    except struct.error as error:
        raise OverflowError(str(error)) from None
    view[position : position + size] = record
    return size


def encode_blank(out: Any, position: int, remaining_bytes: int) -> None:
    """Marks the rest of a segment as empty: `remaining_bytes` from `position` on, at least 8."""
    if remaining_bytes < BLANK_BYTES:
        raise ValueError(f"a blank record needs {BLANK_BYTES} bytes, there are {remaining_bytes}")
    _BLANK.pack_into(out, position, remaining_bytes, MAGIC_BLANK)


def parts_of(buf: Any, position: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Positions of the parts of a record; every length is checked against the record's own size, and the sum.

    That is: (store time, body length, body, topic length, topic, properties length, properties), positions in
    `buf` and lengths. Raises BadRecord.
    """
    if position < 0 or end - position < 8:
        raise BadRecord("the record is cut off", position)
    size, magic = _BLANK.unpack_from(buf, position)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise BadRecord(f"{magic & 0xFFFFFFFF:08X} is no record's magic number", position)
    if size < FIXED_BYTES or size > end - position:
        raise BadRecord(f"a record of {size} bytes cannot stand in {end - position}", position)
    stop = position + size
    (sys_flag,) = _INT.unpack_from(buf, position + 36)
    stored = position + (68 if sys_flag & BORN_HOST_V6 else 56)
    reconsume = stored + (28 if sys_flag & STORE_HOST_V6 else 16)
    if reconsume + 19 > stop:
        raise BadRecord(f"{size} bytes are too few for a record", position)
    (body_length,) = _INT.unpack_from(buf, reconsume + 12)
    body = reconsume + 16
    if body_length < 0 or body_length > stop - body - 3:
        raise BadRecord(f"a body of {body_length} bytes in a record of {size}", position)
    topic = body + body_length
    if magic == MAGIC_V1:
        topic_length = buf[topic]
        if topic_length > 127:
            topic_length -= 256
        topic += 1
    else:
        (topic_length,) = _SHORT.unpack_from(buf, topic)
        topic += 2
    if topic_length < 0 or topic_length > stop - topic - 2:
        raise BadRecord(f"a topic of {topic_length} bytes in a record of {size}", position)
    properties = topic + topic_length
    (properties_length,) = _SHORT.unpack_from(buf, properties)
    properties += 2
    if properties_length != stop - properties:
        raise BadRecord(f"the parts of the record do not add up to its {size} bytes", position)
    topic_text(buf, topic, topic_length, position)
    if b"\x00" in bytes(buf[properties:stop]):
        raise BadRecord("a zero byte in the properties", position)
    return stored, body_length, body, topic_length, topic, properties_length, properties


def topic_text(buf: Any, at: int, length: int, position: int) -> str:
    """The topic of the record at `position`. Raises BadRecord."""
    try:
        return bytes(buf[at : at + length]).decode()
    except UnicodeDecodeError:
        raise BadRecord("the topic is not UTF-8", position) from None


def behind_bad_record(buf: Any, position: int) -> int:
    """The position behind a bad record; the end of the buffer if the size that it names cannot be right."""
    end = len(buf)
    size = int.from_bytes(buf[position : position + 4], "big", signed=True)
    return position + size if FIXED_BYTES <= size <= end - position else end


def bad_record(buf: Any, position: int, end: int) -> BadRecord:
    """The error that says what is wrong with a record of which `find_parts` gave nothing."""
    try:
        parts_of(readable(buf), position, end)
    except BadRecord as error:
        return error
    raise SystemError(f"two readers disagree about the record at {position}")


def readable(buf: Any) -> Any:
    """A buffer whose items and slices are bytes."""
    return buf if isinstance(buf, bytes | mmap.mmap) else memoryview(buf).cast("B")


def decode(buf: Any, position: int, check_crc: bool, check_property_crc: bool) -> StoredMessage:
    """Does what `decode_record` does."""
    buf = readable(buf)
    stored, body_length, body_at, topic_length, topic_at, _, properties_at = parts_of(buf, position, len(buf))
    size, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = _HEAD.unpack_from(
        buf, position
    )
    reconsume_times, prepared_transaction_offset, _ = _RECONSUME.unpack_from(buf, body_at - 16)
    body = bytes(buf[body_at : body_at + body_length])
    if check_crc and crc != crc32(body):
        raise BadRecord("the body does not have its checksum", position)
    if check_property_crc and not property_crc_holds(buf, position, size):
        raise BadRecord("the record does not have its checksum", position)
    topic = topic_text(buf, topic_at, topic_length, position)
    return StoredMessage(
        topic,
        body,
        bytes(buf[properties_at : position + size]),
        queue_id,
        queue_offset,
        physical_offset,
        flag,
        sys_flag,
        born,
        bytes(buf[position + 48 : stored]),
        _LONG.unpack_from(buf, stored)[0],
        bytes(buf[stored + 8 : body_at - 16]),
        reconsume_times,
        prepared_transaction_offset,
        crc,
        size,
    )


def split(buf: Any, position: int) -> tuple[int, int, int, bytes, bytes, bytes]:
    """Splits one record as `split_records` does."""
    buf = readable(buf)
    _, body_length, body_at, topic_length, topic_at, properties_length, properties_at = parts_of(
        buf, position, len(buf)
    )
    size, _, crc, _, _, queue_offset, _, sys_flag, _ = _HEAD.unpack_from(buf, position)
    body = bytes(buf[body_at : body_at + body_length])
    if crc != crc32(body):
        raise BadRecord("the body does not have its checksum", position)
    rest = b"".join(
        (
            _INT.pack(size - body_length - properties_length),
            buf[position + 4 : body_at - 4],
            bytes(4),
            buf[body_at + body_length : topic_at + topic_length],
            bytes(2),
        )
    )
    (reconsume_times,) = _INT.unpack_from(buf, body_at - 16)
    properties = bytes(buf[properties_at : properties_at + properties_length])
    return queue_offset, sys_flag, reconsume_times, body, properties, rest


def header(buf: Any, position: int) -> tuple[int, int, int, int, int, int, int]:
    """Does what `read_header` does."""
    if 0 <= position <= len(buf) - BLANK_BYTES:
        size, magic = _BLANK.unpack_from(buf, position)
        if magic == MAGIC_BLANK:
            return size, magic, 0, 0, 0, 0, 0
    stored = parts_of(buf, position, len(buf))[0]
    size, magic, _, queue_id, _, queue_offset, physical_offset, sys_flag, _ = _HEAD.unpack_from(buf, position)
    return size, magic, queue_id, queue_offset, physical_offset, sys_flag, _LONG.unpack_from(buf, stored)[0]


# ---- many records ----


class RecordWalk:
    """A walk over records: a row of `Located` for each, and where and why it ended."""

    def __init__(
        self,
        buf: Any,
        start: int,
        end: int,
        check_crc: bool,
        max_records: int,
        check_property_crc: bool = False,
    ) -> None:
        if start < 0:
            raise ValueError(f"a scan from byte {start}")
        self.buf = buf if isinstance(buf, bytes | mmap.mmap) else memoryview(buf).cast("B")
        self.position = start
        self.stop = Stop.END
        self.reason = ""
        self._end = min(end, len(buf))
        self._left = max_records
        self._check_crc = check_crc
        self._check_property_crc = check_property_crc

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        while self.position < self._end and self._left > 0:
            at = self.position
            if self._end - at >= BLANK_BYTES:
                size, magic = _BLANK.unpack_from(self.buf, at)
                if magic == MAGIC_BLANK or size == magic == 0:
                    self.stop = Stop.BLANK if magic else Stop.EMPTY
                    return
            try:
                row = self._checked(at)
            except BadRecord as error:
                self.step_back(at, error.reason)
                return
            self.position += row[1]
            self._left -= 1
            yield row

    def _checked(self, at: int) -> tuple[int, ...]:
        stored, body_length, body_at, topic_length, topic_at, _, properties_at = parts_of(
            self.buf, at, self._end
        )
        size, _, crc = _HEAD.unpack_from(self.buf, at)[:3]
        if self._check_crc and crc != crc32(self.buf[body_at : body_at + body_length]):
            raise BadRecord("the body does not have its checksum", at)
        if self._check_property_crc and not property_crc_holds(self.buf, at, size):
            raise BadRecord("the record does not have its checksum", at)
        return at, size, stored, body_at, body_length, topic_at, topic_length, properties_at

    def step_back(self, position: int, reason: str) -> None:
        self.position, self.stop, self.reason = position, Stop.BAD, reason


def locate(buf: Any, start: int, end: int, check_crc: bool, max_records: int) -> Located:
    """Does what `locate_records` does."""
    walk = RecordWalk(buf, start, end, check_crc, max_records)
    numbers = array("q")
    for row in walk:
        numbers.extend(row)
    return Located(bytearray(numbers.tobytes()), walk.position, walk.stop, walk.reason)


def scan(
    buf: Any,
    start: int,
    end: int,
    base_physical_offset: int,
    check_crc: bool,
    check_property_crc: bool,
    max_records: int,
) -> Scan:
    """Does what `scan_records` does."""
    records: list[ScannedRecord] = []
    walk = RecordWalk(buf, start, end, check_crc, max_records, check_property_crc)
    for position, size, stored, _, _, topic_at, topic_length, properties_at in walk:
        _, _, _, queue_id, _, queue_offset, physical_offset, sys_flag, _ = _HEAD.unpack_from(
            walk.buf, position
        )
        if physical_offset != base_physical_offset + position:
            walk.step_back(
                position,
                f"a record for physical offset {physical_offset} is at {base_physical_offset + position}",
            )
            break
        properties = bytes(walk.buf[properties_at : position + size])
        records.append(
            (
                physical_offset,
                size,
                queue_id,
                queue_offset,
                _LONG.unpack_from(walk.buf, stored)[0],
                sys_flag,
                topic_text(walk.buf, topic_at, topic_length, position),
                tags_code(properties),
                properties,
            )
        )
    return Scan(records, walk.position, walk.stop, walk.reason)
