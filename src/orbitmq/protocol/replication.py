"""The stream between a slave and its master on the HA port, as Apache RocketMQ's brokers speak it by default.

The slave reports the physical offset up to which it holds the log: 8 bytes, a signed big-endian integer. The
master sends pieces of its log: a header of physical offset (8 bytes) and size (4 bytes), and so many bytes,
cut anywhere within records but never across the end of a segment. A piece without bytes is a heartbeat.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

from orbitmq.protocol.errors import Malformed

Buffer: TypeAlias = bytes | memoryview

_REPORT = Struct(">q")
_HEADER = Struct(">qi")
REPORT_BYTES = _REPORT.size
HEADER_BYTES = _HEADER.size
READ_BUFFER_BYTES = 4 << 20
"""The buffer of Apache's slave: a header and its bytes have to stay below it."""
TLS_OPENING = 0x1603
"""The first two bytes of TLS: as a report, a log of 1.5 exabytes."""
MAX_PIECE_BYTES = READ_BUFFER_BYTES - HEADER_BYTES - 1
MAX_PHYSICAL_OFFSET = 1 << 56
"""No log is as long as this (72 petabytes); text and most garbage, read as a report, is above it."""
_HANDSHAKES = (bytes((0, 0, 0, 1, 0, 0, 0, 0)), bytes((0, 0, 0, 1, 0, 1, 0, 0)))
"""First bytes of a slave in controller mode, see `protocol.epoch_replication`."""
_LENGTHS = Struct(">IBBH")
_LENGTH_BYTES = 4
_MAX_FRAME_BYTES = 16 << 20
_HTTP_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"DELETE ", b"PATCH ", b"PRI * HTTP")


class BadStream(Malformed):
    """The peer on the HA port sends what neither a slave nor a master sends."""


def describe_stranger(opening: bytes) -> str:
    """A sentence for the log about a peer that sends no reports, from the first bytes of what it sends."""
    if opening[:REPORT_BYTES] in _HANDSHAKES:
        return "it is a slave in controller mode: set enableControllerMode alike at all brokers of the group"
    if opening.startswith(_HTTP_METHODS):
        kind = "it sends an HTTP request"
    elif _is_remoting(opening):
        kind = "it sends a client's request, which belongs to the broker's listenPort"
    else:
        kind = f"it sends bytes of an unknown protocol ({opening[:REPORT_BYTES].hex(' ')})"
    return (
        f"this is no slave: {kind}. Only slaves use this port (haListenPort): give that program the right "
        "port, or let only the hosts of slaves reach this one"
    )


def _is_remoting(opening: bytes) -> bool:
    """True for the beginning of a frame: its length, the kind and length of its header, and the header."""
    if len(opening) <= _LENGTHS.size:
        return False
    frame, kind, high, low = _LENGTHS.unpack_from(opening)
    header = high << 16 | low
    is_header = opening[_LENGTHS.size] == ord("{") if kind == 0 else kind == 1
    return is_header and 0 < header <= frame - _LENGTH_BYTES <= _MAX_FRAME_BYTES


def encode_report(physical_offset: int) -> bytes:
    """The report of a slave that holds the log up to a physical offset."""
    return _REPORT.pack(physical_offset)


def encode_header(physical_offset: int, size: int) -> bytes:
    """The header of a piece of the log."""
    if not 0 <= size <= MAX_PIECE_BYTES:
        raise ValueError(f"a piece of {size} bytes, the limit is {MAX_PIECE_BYTES}")
    return _HEADER.pack(physical_offset, size)


class ReportReader:
    """Reports out of the bytes that a slave sends. Keeps fewer than 8 bytes between two reads."""

    def __init__(self) -> None:
        self._rest = b""
        self._newest = 0

    def feed(self, data: bytes) -> int | None:
        """Gives the newest report that is whole, None without one. Raises BadStream for an impossible one.

        Only the newest counts: what a slave has never becomes less while it is connected.
        """
        data = self._rest + data
        whole = len(data) - len(data) % REPORT_BYTES
        self._rest = data[whole:]
        if not whole:
            return None
        for (offset,) in _REPORT.iter_unpack(data[:whole]):
            if offset >> 48 == TLS_OPENING:
                raise BadStream(
                    "it begins with TLS, and here is none: set haTlsEnable at all brokers of the group, "
                    "or at none"
                )
            if not self._newest <= offset < MAX_PHYSICAL_OFFSET:
                raise BadStream(describe_stranger(data))
            self._newest = int(offset)
        return self._newest


class Piece(NamedTuple):
    """Bytes of the master's log; none in a heartbeat."""

    physical_offset: int
    data: Buffer


class PieceReader:
    """Pieces out of the bytes that a master sends. Keeps less than one piece between two reads."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Piece]:
        """Gives the pieces that are whole. Raises BadStream for a size that no master sends."""
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < HEADER_BYTES or len(rest) < HEADER_BYTES + _piece(rest, 0)[1]:
                return []
            data = bytes(rest)
        view = memoryview(data)
        pieces: list[Piece] = []
        at = 0
        while len(view) - at >= HEADER_BYTES:
            physical_offset, size = _piece(view, at)
            end = at + HEADER_BYTES + size
            if end > len(view):
                break
            pieces.append(Piece(physical_offset, view[at + HEADER_BYTES : end]))
            at = end
        self._rest = bytearray(view[at:])
        return pieces

    @property
    def next_offset(self) -> int | None:
        """The physical offset of the piece whose header has come and whose bytes have not, else None."""
        return _HEADER.unpack_from(self._rest)[0] if len(self._rest) >= HEADER_BYTES else None


def _piece(data: bytearray | memoryview, at: int) -> tuple[int, int]:
    """Physical offset and size of the piece whose header is at a place. Raises BadStream."""
    physical_offset, size = _HEADER.unpack_from(data, at)
    if physical_offset < 0 or not 0 <= size <= MAX_PIECE_BYTES:
        raise BadStream(
            f"a piece of {size} bytes at {physical_offset}: no master of a broker group answers there"
        )
    return physical_offset, size
