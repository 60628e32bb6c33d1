"""The stream on the HA port in controller mode, as Apache RocketMQ's brokers speak it then.

The slave begins with a handshake of 16 bytes that names it. The master answers with the epochs of its log.
The slave cuts its log to what both have in common, and reports where it ends: 12 bytes, again with every
piece of progress. The master sends pieces of its log, each behind a header of 36 bytes with the epoch of its
bytes and the confirm offset; no piece crosses the end of an epoch or of a segment. A piece without bytes is a
heartbeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from orbitmq.protocol.replication import READ_BUFFER_BYTES, BadStream, Buffer, describe_stranger

_HANDSHAKE = Struct(">ihhq")
_REPORT = Struct(">iq")
_ANSWER = Struct(">iiqi")
_ENTRY = Struct(">iq")
_HEADER = Struct(">iiqiqq")
HANDSHAKE_BYTES = _HANDSHAKE.size
REPORT_BYTES = _REPORT.size
ANSWER_BYTES = _ANSWER.size
HEADER_BYTES = _HEADER.size
MAX_PIECE_BYTES = READ_BUFFER_BYTES - HEADER_BYTES - 1
MAX_EPOCHS = 100_000
"""Largest number of epochs in an answer; a log with more of them is not followed."""


class LinkState(IntEnum):
    """State of a connection, in its first four bytes."""

    HANDSHAKE = 1
    TRANSFER = 2


class Epoch(NamedTuple):
    """A master's reign: its number, and the physical offset at which its part of the log begins."""

    number: int
    start: int


class Handshake(NamedTuple):
    """The first words of a slave."""

    broker_id: int
    from_last_file: bool
    is_learner: bool


class Answer(NamedTuple):
    """The master's answer to a handshake: the end of its log, and the epochs of it, oldest first."""

    log_end: int
    epochs: list[Epoch]


class EpochPiece(NamedTuple):
    """Bytes of the master's log, all of one epoch; none in a heartbeat."""

    physical_offset: int
    epoch: Epoch
    confirm_offset: int
    data: Buffer


def encode_handshake(broker_id: int) -> bytes:
    """The handshake of a slave that counts in the in-sync set and wants all of the log."""
    return _HANDSHAKE.pack(LinkState.HANDSHAKE, 0, 0, broker_id)


def encode_report(physical_offset: int) -> bytes:
    """The report of a slave that holds the log up to a physical offset."""
    return _REPORT.pack(LinkState.TRANSFER, physical_offset)


def encode_answer(log_end: int, epochs: Sequence[Epoch]) -> bytes:
    """The master's answer to a handshake."""
    body = b"".join(_ENTRY.pack(*epoch) for epoch in epochs)
    last = epochs[-1].number if epochs else -1
    return _ANSWER.pack(LinkState.HANDSHAKE, len(body), log_end, last) + body


def encode_header(physical_offset: int, size: int, epoch: Epoch, confirm_offset: int) -> bytes:
    """The header of a piece of the log."""
    if not 0 <= size <= MAX_PIECE_BYTES:
        raise ValueError(f"a piece of {size} bytes, the limit is {MAX_PIECE_BYTES}")
    return _HEADER.pack(LinkState.TRANSFER, size, physical_offset, *epoch, confirm_offset)


class SlaveReader:
    """The handshake and the reports of a slave. Keeps less than one of them between two reads."""

    def __init__(self) -> None:
        self._rest = b""
        self.handshake: Handshake | None = None

    def feed(self, data: bytes) -> int | None:
        """Gives the newest report that is whole, None without one; the handshake is in `handshake` then.

        Raises BadStream for bytes that no slave in controller mode sends.
        """
        data = self._rest + data
        at = 0
        if self.handshake is None:
            if len(data) < HANDSHAKE_BYTES:
                self._rest = data
                return None
            state, last_file, learner, broker_id = _HANDSHAKE.unpack_from(data)
            if state != LinkState.HANDSHAKE:
                raise BadStream(
                    f"{describe_stranger(data)}. If it is a slave after all, set enableControllerMode alike "
                    "at all brokers of the group"
                )
            if broker_id < 1:
                raise BadStream(f"it begins with broker id {broker_id}: no slave has that")
            self.handshake = Handshake(broker_id, bool(last_file), bool(learner))
            at = HANDSHAKE_BYTES
        report = None
        while len(data) - at >= REPORT_BYTES:
            state, offset = _REPORT.unpack_from(data, at)
            if state != LinkState.TRANSFER or offset < 0:
                raise BadStream(f"a report of {offset} in state {state}: no slave sends that")
            report = int(offset)
            at += REPORT_BYTES
        self._rest = data[at:]
        return report


class MasterReader:
    """The answer and the pieces of a master. Keeps less than one of them between two reads."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.answer: Answer | None = None

    def feed(self, data: bytes) -> list[EpochPiece]:
        """Gives the pieces that are whole; the answer is in `answer` once it has come.

        Raises BadStream for bytes that no master in controller mode sends.
        """
        rest = self._rest
        if rest or self.answer is None:
            rest += data
            if self.answer is None:
                del rest[: self._read_answer()]
            if self.answer is None:
                return []
            if len(rest) < HEADER_BYTES or len(rest) < HEADER_BYTES + _piece(rest, 0)[0]:
                return []
            data = bytes(rest)
        view = memoryview(data)
        pieces: list[EpochPiece] = []
        at = 0
        while len(view) - at >= HEADER_BYTES:
            size, physical_offset, epoch, confirm_offset = _piece(view, at)
            end = at + HEADER_BYTES + size
            if end > len(view):
                break
            pieces.append(EpochPiece(physical_offset, epoch, confirm_offset, view[at + HEADER_BYTES : end]))
            at = end
        self._rest = bytearray(view[at:])
        return pieces

    def _read_answer(self) -> int:
        """Reads the answer, if it is whole; gives where it ends."""
        buffer = self._rest
        if len(buffer) < ANSWER_BYTES:
            return 0
        answer: tuple[int, int, int, int] = _ANSWER.unpack_from(buffer)
        state, size, log_end, last = answer
        count = size // _ENTRY.size
        if (
            state != LinkState.HANDSHAKE
            or size < 0
            or size % _ENTRY.size
            or count > MAX_EPOCHS
            or log_end < 0
        ):
            raise BadStream(f"an answer in state {state} with {size} bytes of epochs: no master gives it")
        end = ANSWER_BYTES + size
        if len(buffer) < end:
            return 0
        epochs = [Epoch(*entry) for entry in _ENTRY.iter_unpack(bytes(buffer[ANSWER_BYTES:end]))]
        if (epochs[-1].number if epochs else -1) != last and epochs:
            raise BadStream(f"the last of its epochs is {epochs[-1].number}, and it says {last}")
        self.answer = Answer(log_end, epochs)
        return end


def _piece(data: bytearray | memoryview, at: int) -> tuple[int, int, Epoch, int]:
    """Size, physical offset, epoch and confirm offset of the piece whose header is at a place. Raises
    BadStream.
    """
    state, size, physical_offset, number, start, confirm_offset = _HEADER.unpack_from(data, at)
    if state != LinkState.TRANSFER or physical_offset < 0 or not 0 <= size <= MAX_PIECE_BYTES:
        raise BadStream(
            f"a piece of {size} bytes at {physical_offset} in state {state}: no master sends that"
        )
    return size, physical_offset, Epoch(number, start), confirm_offset
