"""A byte stream cut into commands."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.protocol.command import Command
from orbitmq.protocol.header_cy import decode_frames, encode_command, encode_head

__all__ = ["MAX_FRAME_BYTES", "FrameSplitter", "encode_command", "encode_head"]

MAX_FRAME_BYTES = 16 << 20
"""Longest frame taken, its length word included; the limit that Apache's peers have."""
FRAME_HEAD_BYTES = 8
"""The length word and the header word, before a frame's header."""
JOINED_BYTES = 16 << 10
"""Smaller pieces of an unfinished frame are put together as they come: each by itself, they weigh more."""


class FrameSplitter:
    """Feed it what a socket delivers; it gives the commands that are whole.

    It never holds more than one unfinished frame, and its length is checked before it is waited for.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pieces: list[bytes | bytearray] = []
        self.pending_bytes = 0
        """How much of an unfinished frame is held."""
        self._needed = 0

    def feed(
        self, data: bytes | bytearray | memoryview, take: Callable[[bytes], int] | None = None
    ) -> list[Command]:
        """The commands completed by `data`. Raises MalformedFrame; the stream is of no use after that.

        `take` may have whole frames at the start of what is there for itself: it says how many bytes.
        """
        if self.pending_bytes:
            self._hold(data)
            if self.pending_bytes < self._needed:
                return []
            data = b"".join(self._pieces)
            self.clear()
        taken = take(data) if take is not None and type(data) is bytes else 0
        if taken == len(data):
            return []
        commands, end = decode_frames(data, self._max_frame_bytes, taken)
        if end < len(data):
            rest = data[end:]
            # A length is waited for only once it was checked, which takes the first eight bytes of a frame.
            self._needed = (
                4 + int.from_bytes(rest[:4], "big") if len(rest) >= FRAME_HEAD_BYTES else FRAME_HEAD_BYTES
            )
            self._hold(rest)
        return commands

    def clear(self) -> None:
        """Lets go of an unfinished frame."""
        self._pieces.clear()
        self.pending_bytes = 0

    def _hold(self, data: bytes | bytearray | memoryview) -> None:
        """Keeps a part of a frame: a large one as it is, for joining them once copies less than growing."""
        if len(data) >= JOINED_BYTES:
            self._pieces.append(bytes(data))
        elif self._pieces and isinstance(last := self._pieces[-1], bytearray):
            last += data
        else:
            self._pieces.append(bytearray(data))
        self.pending_bytes += len(data)
