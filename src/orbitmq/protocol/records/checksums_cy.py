"""Checksums of records: of a body, and of a whole record, which then is its last property.

Hot: every message has one.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias

from orbitmq.protocol.records.message import PROPERTY_CRC_BYTES, PROPERTY_CRC_NAME

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap

_crc32: Callable[[Any], int]
try:
    # Several times as fast as the standard library's.
    from isal.isal_zlib import crc32 as _crc32
except ImportError:
    _crc32 = zlib.crc32


def crc32(data: ReadableBuffer) -> int:
    """The CRC-32 of a body as records hold it: without its highest bit."""
    return _crc32(data) & 0x7FFFFFFF


def _crc_tables() -> bytes:
    """Eight tables of 256 words for the CRC-32 of eight bytes at a time, as native 32-bit words."""
    tables = [[0] * 256 for _ in range(8)]
    for byte in range(256):
        code = byte
        for _ in range(8):
            code = code >> 1 ^ (0xEDB88320 if code & 1 else 0)
        tables[0][byte] = code
    for byte in range(256):
        code = tables[0][byte]
        for table in tables[1:]:
            code = tables[0][code & 0xFF] ^ code >> 8
            table[byte] = code
    return b"".join(Struct("=256I").pack(*table) for table in tables)


CRC_TABLES: bytes = _crc_tables()
"""For bodies of up to 512 bytes in compiled code: a call to the library costs more than they do."""


def room_for_crc(properties: bytes) -> bytes:
    """The properties with a place for the checksum at their end, and without one they had before."""
    if PROPERTY_CRC_NAME + b"\x01" in properties:
        entries = properties.split(b"\x02")
        properties = b"\x02".join([e for e in entries if not e.startswith(PROPERTY_CRC_NAME + b"\x01")])
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + bytes(PROPERTY_CRC_BYTES)


_CRC_NAME = PROPERTY_CRC_NAME + b"\x01"
_CRC_NAME_BITS = int.from_bytes(_CRC_NAME, "big")


def _property_crc(record: memoryview) -> bytes:
    """The last property of a record: the checksum of what is before it, last digit first."""
    digits = f"{crc32(record[:-PROPERTY_CRC_BYTES]):010d}"[::-1]
    return b"%b\x01%b\x02" % (PROPERTY_CRC_NAME, digits.encode())


def write_property_crc(out: Any, position: int, size: int) -> None:
    """Writes the checksum of a record into the place that `room_for_crc` made."""
    with memoryview(out) as whole, whole.cast("B") as view, view[position : position + size] as record:
        record[-PROPERTY_CRC_BYTES:] = _property_crc(record)


def property_crc_holds(buf: Any, position: int, size: int) -> bool:
    """True if the checksum at a record's end is right, and for a record without one.

    A name that differs from that of the checksum in a single bit is a damaged one, not another property's.
    """
    with memoryview(buf) as whole, whole.cast("B") as view, view[position : position + size] as record:
        last = bytes(record[-PROPERTY_CRC_BYTES:])
        different = int.from_bytes(last[: len(_CRC_NAME)], "big") ^ _CRC_NAME_BITS
        return different.bit_count() > 1 or last == _property_crc(record)
