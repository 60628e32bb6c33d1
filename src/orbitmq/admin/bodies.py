"""Bodies of stored messages for whoever looks at them: inflated as far as they are shown, within a budget.

A few kilobytes may inflate to many megabytes. So whoever answers a question has one BodyBudget for the whole
answer, and uses it in a thread if other work waits on its event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.compression import (
    DEFAULT_MAX_INFLATED_BYTES,
    PIECE_BYTES,
    CompressionError,
    InflatedTooLarge,
    inflated_pieces,
)
from orbitmq.protocol.records.message import COMPRESSED, StoredMessage

log = logging.getLogger(__name__)

ANSWER_BYTES = 32 << 20
"""Inflated bytes of all bodies of one answer."""
BEGINNING_BYTES = 64 << 10
"""So much is shown of a body that cannot be shown whole."""
SMALL_PIECE_BYTES = 16 << 10
COUNTED_BYTES = 256 << 10
"""Bodies up to so many bytes are inflated to their end where only the beginning is shown, for the size."""

FLAG = "--max-inflated-body-bytes"
"""The flag of commands that show or read bodies: the maximum size of a body once it is inflated."""
MAX_LIMIT_BYTES = 1 << 30
"""The largest value of that flag."""

ProblemKind = Literal["tooLarge", "budget", "damaged", "hidden"]


@dataclass(frozen=True, slots=True)
class BodyProblem:
    """The reason that a body is not shown as it was asked for."""

    kind: ProblemKind
    text: str
    """In words, with the option that helps."""


@dataclass(frozen=True, slots=True)
class ShownBody:
    """A body, or its beginning."""

    data: bytes
    size: int | None
    """Size of the whole body in bytes; None if only its beginning was inflated."""
    is_cut: bool
    """True if `data` is not all of it."""
    problem: BodyProblem | None = None

    def beginning(self, most_bytes: int | None) -> ShownBody:
        """The same with so many bytes at most."""
        if most_bytes is None or len(self.data) <= most_bytes:
            return self
        return ShownBody(self.data[:most_bytes], self.size, True, self.problem)


class BudgetSpent(OrbitError):
    """The bodies of an answer are larger together than it may have."""


class BodyTooLarge(OrbitError):
    """A body inflates to more than the reader takes."""


class BodyBudget:
    """The bodies of one answer.

    One body may have `max_body_bytes` once it is inflated, all together about `answer_bytes`.
    """

    def __init__(
        self, max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES, answer_bytes: int = ANSWER_BYTES
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self._answer_bytes = answer_bytes
        self._left_bytes = answer_bytes

    @property
    def is_spent(self) -> bool:
        """True if nothing more is inflated."""
        return self._left_bytes <= 0

    def pieces(self, message: StoredMessage, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
        """The body in pieces, inflated one by one.

        Raises CompressionError, InflatedTooLarge for a body above the maximum, BudgetSpent.
        """
        if not message.sys_flag & COMPRESSED:
            body = message.body
            yield from (body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes))
            return
        pieces = inflated_pieces(message.body, message.sys_flag, self.max_body_bytes, piece_bytes)
        while not self.is_spent:
            piece = next(pieces, None)
            if piece is None:
                return
            self._left_bytes -= len(piece)
            yield piece
        if self._left_bytes == 0 and next(pieces, None) is None:
            return
        raise BudgetSpent(
            f"the bodies of one answer may have {self._answer_bytes} bytes together: look the message up by "
            "itself"
        )

    def shown(self, message: StoredMessage, most_bytes: int | None = None) -> ShownBody:
        """The body as far as it is shown: `most_bytes`, or all of it.

        A body that cannot be shown so has a `problem`. If it is damaged, its stored bytes are shown.
        """
        if not message.sys_flag & COMPRESSED:
            return ShownBody(bytes(message.body), len(message.body), False).beginning(most_bytes)
        parts: list[bytes] = []
        kept = size = 0
        error: Exception | None = None
        try:
            for piece in self.pieces(message, PIECE_BYTES if most_bytes is None else SMALL_PIECE_BYTES):
                size += len(piece)
                if most_bytes is None or kept < most_bytes:
                    parts.append(piece)
                    kept = size
                elif size > COUNTED_BYTES:
                    break
            else:
                return ShownBody(b"".join(parts), size, kept < size).beginning(most_bytes)
        except (CompressionError, BudgetSpent) as reason:
            error = reason
        if error is None or (most_bytes is not None and kept >= most_bytes):
            return ShownBody(b"".join(parts)[:most_bytes], None, True)
        problem = self.problem_of(message, error)
        data = bytes(message.body) if problem.kind == "damaged" else b"".join(parts)
        return ShownBody(data[: min(most_bytes or BEGINNING_BYTES, BEGINNING_BYTES)], None, True, problem)

    def problem_of(self, message: StoredMessage, error: Exception) -> BodyProblem:
        """The problem that an error of `pieces` stands for."""
        if isinstance(error, BudgetSpent):
            return BodyProblem("budget", str(error))
        if isinstance(error, InflatedTooLarge):
            return BodyProblem(
                "tooLarge",
                f"the body, stored in {len(message.body)} bytes, inflates to more than "
                f"{self.max_body_bytes} bytes: {FLAG} sets this maximum",
            )
        return BodyProblem("damaged", f"the body is shown as it is stored: {error}")

    def size_of(self, message: StoredMessage) -> int | None:
        """Size of the body in bytes; None if it cannot be told within the budget."""
        try:
            return sum(map(len, self.pieces(message)))
        except (CompressionError, BudgetSpent):
            return None

    def plain(self, message: StoredMessage) -> StoredMessage:
        """The message with its body inflated. Raises BodyTooLarge, BudgetSpent, CompressionError."""
        if not message.sys_flag & COMPRESSED:
            return message
        try:
            return message.with_body(b"".join(self.pieces(message)))
        except InflatedTooLarge as error:
            raise BodyTooLarge(self.problem_of(message, error).text) from None


async def plain_as_far(messages: list[StoredMessage], max_body_bytes: int) -> list[StoredMessage]:
    """Messages with their bodies inflated, in a thread; the others as they are stored, with a warning."""
    budget = BodyBudget(max_body_bytes)

    def inflated(message: StoredMessage) -> StoredMessage:
        try:
            return budget.plain(message)
        except OrbitError as error:
            log.warning("message %s: %s", message.unique_id or message.offset_id, error)
            return message

    if not any(one.sys_flag & COMPRESSED for one in messages):
        return messages
    return await asyncio.to_thread(lambda: [inflated(one) for one in messages])


async def plain(message: StoredMessage, max_body_bytes: int) -> StoredMessage:
    """One message with its body inflated, in a thread. Raises BodyTooLarge, CompressionError."""
    if not message.sys_flag & COMPRESSED:
        return message
    return await asyncio.to_thread(BodyBudget(max_body_bytes, max_body_bytes + 1).plain, message)
