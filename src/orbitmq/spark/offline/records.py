"""Finding where records begin in a commit-log file, at its tail and behind damage.

A record says of itself at which physical offset it stands. Bytes that look like a record are one only if that
is right, their parts add up and the body has its checksum: what a message carries by chance cannot pass.
"""

from __future__ import annotations

from typing import Any

from orbitmq.protocol.records.message import FIXED_BYTES
from orbitmq.protocol.records.scanning_cy import locate_records
from orbitmq.protocol.records.scans import Stop
from orbitmq.spark.offline.storage import View

_MAGIC = b"\xda\xa3\x20"
_LAST_OF_MAGIC = b"\xa7\xab"
_MAGIC_AT = 4
_PHYSICAL_OFFSET_AT = 28
_FRONT_BYTES = 64
_ZEROS = bytes(1 << 20)

LOOKED_BEHIND_BYTES = 1 << 20
"""Bytes behind zeros in which records are searched before the zeros count as the end of the log."""
MAX_RECORD_BYTES = 512 << 20
"""A size word beyond this is damage, whatever the file has room for."""


def sound_record_at(view: View, base: int, position: int) -> int:
    """The size of the sound record at a position of a file that begins at physical offset `base`; else 0."""
    if view.size - position < FIXED_BYTES:
        return 0
    buf, first = view.window(position, FIXED_BYTES)
    at = position - first
    size = int.from_bytes(buf[at : at + 4], "big", signed=True)
    if not FIXED_BYTES <= size <= min(view.size - position, MAX_RECORD_BYTES):
        return 0
    claimed = int.from_bytes(buf[at + _PHYSICAL_OFFSET_AT : at + _PHYSICAL_OFFSET_AT + 8], "big", signed=True)
    if claimed != base + position:
        return 0
    buf, first = view.window(position, size)
    found = locate_records(buf, position - first, position - first + size, True, 1)
    return size if len(found.table) else 0


def next_record(view: View, base: int, begin: int, end: int) -> int | None:
    """The first position in [begin, end) of a file where a sound record begins; None without one."""
    position = begin
    while position < end:
        buf, first = view.window(position, min(_FRONT_BYTES, view.size - position))
        limit = min(end - first, len(buf))
        at = buf.find(_MAGIC, position - first + _MAGIC_AT, min(limit + _MAGIC_AT + 3, len(buf)))
        if at < 0:
            if first + limit >= end or first + len(buf) >= view.size:
                return None
            # A magic number may stand across the end of the window.
            position = max(position + 1, first + limit - _FRONT_BYTES)
            continue
        candidate: int = first + at - _MAGIC_AT
        if candidate >= end:
            return None
        if bytes(buf[at + 3 : at + 4]) in _LAST_OF_MAGIC and sound_record_at(view, base, candidate):
            return candidate
        position = candidate + 1
    return None


def is_zero(view: View, begin: int, end: int) -> bool:
    """True if [begin, end) of a file holds only zeros."""
    position = begin
    while position < end:
        buf, first = view.window(position, 1)
        stop = min(end - first, len(buf), position - first + len(_ZEROS))
        piece = buf[position - first : stop]
        if piece != _ZEROS[: len(piece)]:
            return False
        position = first + stop
    return True


def end_of_log(view: View, base: int, begin: int) -> tuple[int, bool]:
    """The end of the records of a file that may be written to, and whether the bytes there are sound.

    `begin` is where a record begins, or the file does. Sound is: nothing was written there yet, or the file
    is full. Otherwise bytes stand there behind which no record is found: a record that is being written, or
    was when the power went.
    """
    position = begin
    while position < view.size:
        buf, first = view.window(position)
        found = locate_records(buf, position - first, len(buf), False)
        position = first + found.position
        if found.stop is Stop.END:
            continue
        if found.stop is Stop.BLANK:
            return view.size, True
        behind = position + 1 if found.stop is Stop.BAD else position
        near = view.size if found.stop is Stop.BAD else min(view.size, position + LOOKED_BEHIND_BYTES)
        following = next_record(view, base, behind, near)
        if following is None:
            return position, found.stop is Stop.EMPTY
        position = following
    return view.size, True


def claimed_size(buf: Any, at: int) -> int:
    """The number in the place of a record's size; 0 if the buffer ends before it."""
    return int.from_bytes(buf[at : at + 4], "big", signed=True) if at + 4 <= len(buf) else 0
