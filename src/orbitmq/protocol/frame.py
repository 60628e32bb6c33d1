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


class FrameSplitter:
    """Feed it what a socket delivers; it gives the commands that are whole.

    It never holds more than one unfinished frame, and its length is checked before it is waited for.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self.rest = bytearray()
        """The unfinished frame; what it holds is the splitter's."""
        self._needed = 0

    @property
    def pending_bytes(self) -> int:
        """How much of an unfinished frame is held."""
        return len(self.rest)

    def feed(
        self, data: bytes | bytearray | memoryview, take: Callable[[bytes], int] | None = None
    ) -> list[Command]:
        """The commands completed by `data`. Raises MalformedFrame; the stream is of no use after that.

        `take` may have whole frames at the start of what is there for itself: it says how many bytes.
        """
        rest = self.rest
        if rest:
            rest += data
            if len(rest) < self._needed:
                return []
            data = bytes(rest)
            rest.clear()
        taken = take(data) if take is not None and type(data) is bytes else 0
        if taken == len(data):
            return []
        commands, end = decode_frames(data, self._max_frame_bytes, taken)
        if end < len(data):
            rest += memoryview(data)[end:]
            # A length is waited for only once it was checked, which takes the first eight bytes of a frame.
            self._needed = 4 + int.from_bytes(rest[:4], "big") if len(rest) >= 8 else 8
        return commands
