"""Frames of HTTP/2 as a port sees them go by: peers that send frames of no use are found. Rules only.

Frames that carry data earn what others cost, and so does what the peer is sent. A flood of pings, settings,
resets, empty frames or headers earns nothing, and is over when its credit is.
"""

from __future__ import annotations

PREFACE_BYTES = 24
"""A connection begins with so many bytes that are no frame."""
HEAD_BYTES = 9
MOST_CREDIT = 25_000
"""Frames that a connection may send at once without data between them."""
CREDIT_PER_SECOND = 1000
BYTES_PER_CREDIT = 4096
"""Data that a peer is sent earns as well: the peer has to say that it can take more."""
CALL_COST = 20
"""A block of headers begins a call, which is more work than a frame."""
RESET_COST = 10
EARNED_BY_DATA = 25
"""A call with its data pays for itself; one that is reset at once does not."""
MOST_HEADER_BYTES = 32 << 10
"""Longest block of headers, with its continuations."""

_DATA, _HEADERS, _RESET, _CONTINUATION = 0, 1, 3, 9
_END_HEADERS = 4


class Frames:
    """The frames that one peer has sent. `now` is in seconds."""

    def __init__(self, now: float) -> None:
        self._skip = PREFACE_BYTES
        """Bytes that come before the next head of a frame."""
        self._head = b""
        """A head of which not all is there."""
        self._header_bytes = 0
        """Length of the block of headers that has begun and not ended."""
        self._credit = float(MOST_CREDIT)
        self._refilled = now

    def sent(self, size: int) -> None:
        """Notes bytes that the peer was sent."""
        self._credit += 1 + size // BYTES_PER_CREDIT

    def why_not(self, data: bytes, now: float) -> str:
        """The reason to end the connection that brought `data`; empty where there is none."""
        at, end = self._skip, len(data)
        if at >= end and not self._head:
            self._skip = at - end
            return ""
        if self._head:
            data = self._head + data
            end = len(data)
            at = 0
        credit = min(self._credit + (now - self._refilled) * CREDIT_PER_SECOND, MOST_CREDIT)
        self._refilled = now
        while at + HEAD_BYTES <= end:
            size = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            kind = data[at + 3]
            if kind == _DATA and size:
                credit += EARNED_BY_DATA
            else:
                credit -= CALL_COST if kind == _HEADERS else RESET_COST if kind == _RESET else 1
                if kind in (_HEADERS, _CONTINUATION):
                    self._header_bytes += size
                    if self._header_bytes > MOST_HEADER_BYTES:
                        return f"more than {MOST_HEADER_BYTES} bytes of headers in one call"
                    if data[at + 4] & _END_HEADERS:
                        self._header_bytes = 0
            at += HEAD_BYTES + size
        self._head = data[at:]
        self._skip = max(0, at - end)
        self._credit = credit
        return "a flood of frames without data" if credit < 0 else ""
