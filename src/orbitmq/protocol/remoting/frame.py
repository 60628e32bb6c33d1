"""A byte stream cut into commands."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.protocol.remoting.command import Command, Oversized
from orbitmq.protocol.remoting.header_cy import decode_frames, encode_command, encode_head

__all__ = ["MAX_FRAME_BYTES", "FrameSplitter", "encode_command", "encode_head"]

MAX_FRAME_BYTES = 16 << 20
"""Longest frame taken, its length word included; the limit that Apache's peers have."""
FRAME_HEAD_BYTES = 8
"""The length word and the header word, before a frame's header."""
JOINED_BYTES = 16 << 10
"""Smaller pieces of an unfinished frame are put together as they come: each by itself, they weigh more."""


CHECKED_BYTES = 64 << 10
"""Of a frame longer than this the header is looked at before its body is kept."""


def needed_bytes(data: bytes | bytearray | memoryview, start: int = 0) -> int:
    """Number of bytes needed from `start` on: those of the frame, or first those of its lengths.

    A length is waited for only once it was checked, which takes the first eight bytes of a frame.
    """
    if len(data) - start < FRAME_HEAD_BYTES:
        return FRAME_HEAD_BYTES
    return 4 + int.from_bytes(data[start : start + 4], "big")


class FrameSplitter:
    """Feed it what a socket delivers; it gives the commands that are whole.

    It never holds more than one unfinished frame, and its length is checked before it is waited for. So is
    the body of a request, where `max_body(code)` says how long it may be: a longer one is passed over as it
    comes, and the command is an `Oversized` one.
    """

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, max_body: Callable[[int], int] | None = None
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._max_body = max_body
        self._is_checked = False
        """Nothing more is to be found out about the unfinished frame."""
        self._passed_over = 0
        """Bytes still to come of a body that is not kept."""
        self._pieces: list[bytes | bytearray] = []
        self.pending_bytes = 0
        """Bytes held of an unfinished frame."""
        self._needed = 0

    def feed(
        self, data: bytes | bytearray | memoryview, take: Callable[[bytes], int] | None = None
    ) -> list[Command]:
        """The commands completed by `data`. Raises MalformedFrame; the stream is of no use after that.

        `take` may have whole frames at the start of what is there for itself: it says how many bytes.
        """
        if self._passed_over:
            passed = min(self._passed_over, len(data))
            self._passed_over -= passed
            data = bytes(data[passed:])
            if not data:
                return []
        if self.pending_bytes:
            self._hold(data)
            if self.pending_bytes < self._needed:
                return self._check()
            data = b"".join(self._pieces)
            self.clear()
        taken = take(data) if take is not None and type(data) is bytes else 0
        if taken == len(data):
            return []
        commands, end = decode_frames(data, self._max_frame_bytes, taken)
        if end < len(data):
            rest = data[end:]
            self._needed = needed_bytes(rest)
            self._is_checked = self._max_body is None or self._needed <= CHECKED_BYTES
            self._hold(rest)
            commands += self._check()
        return commands

    def _check(self) -> list[Command]:
        """Gives the command of an unfinished frame whose body is not to be kept, once its header is there."""
        if self._is_checked or self._max_body is None:
            return []
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        head = self._pieces[0]
        if len(head) < FRAME_HEAD_BYTES:
            return []
        header_bytes = int.from_bytes(head[5:8], "big")
        end = FRAME_HEAD_BYTES + header_bytes
        if len(head) < end:
            return []
        self._is_checked = True
        (command,), _ = decode_frames(
            (4 + header_bytes).to_bytes(4, "big") + bytes(head[4:end]), self._max_frame_bytes
        )
        body_bytes = self._needed - end
        if command.is_response or body_bytes <= self._max_body(command.code):
            return []
        self._passed_over = self._needed - self.pending_bytes
        self.clear()
        return [Oversized(command, body_bytes)]

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
