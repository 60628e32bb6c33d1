"""Selection of messages by tag, by an SQL92 expression, and by a text in body or properties."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from orbitmq.admin.bodies import BodyBudget, BudgetSpent
from orbitmq.broker.filter.sql92 import compile_filter
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.message import StoredMessage

MAX_TEXT = 1000
Seen = Callable[[StoredMessage, BodyBudget], StoredMessage]
"""Raises BudgetSpent or CompressionError for a body that cannot be looked into."""


@dataclass(slots=True)
class Selected:
    """The messages that are meant, as they are stored."""

    messages: list[StoredMessage] = field(default_factory=list)
    unread: int = 0
    """Messages whose bodies could not be looked into: they may or may not be meant."""
    reason: str = ""
    """The reason of the last one of them."""


class Selection:
    """Messages for which all that is given holds; empty is all of them. Raises BadExpression.

    `tag` is one or several with `||` between, `text` is found in capitals and in small letters, `key` is one
    of the message's keys. `seen` gives a message as its reader may see it: filter and text are for that.
    """

    def __init__(
        self, tag: str = "", sql: str = "", text: str = "", key: str = "", seen: Seen | None = None
    ) -> None:
        self._tags = {one.strip() for one in tag.split("||")} - {"", "*"}
        self._sql = compile_filter(sql) if sql.strip() else None
        self._text = text[:MAX_TEXT].lower().encode()
        self._key = key.strip()
        self._seen = seen

    @property
    def is_everything(self) -> bool:
        return not (self._tags or self._sql or self._text or self._key)

    async def select(self, messages: Sequence[StoredMessage], budget: BodyBudget) -> Selected:
        """Those that are meant. A text is looked for in a thread, as far as the budget lasts."""
        meant = [one for one in messages if self._is_meant(one)]
        if not meant or not (self._text or (self._sql and self._seen)):
            return Selected(meant)
        return await asyncio.to_thread(self.with_text, meant, budget)

    def _is_meant(self, stored: StoredMessage) -> bool:
        if self._tags and stored.tags not in self._tags:
            return False
        if self._key and self._key not in stored.keys:
            return False
        return self._sql is None or self._seen is not None or self._sql.matches(stored.properties)

    def with_text(self, messages: Iterable[StoredMessage], budget: BodyBudget) -> Selected:
        """Those that hold the text in properties or body. Bodies are inflated piece by piece."""
        selected = Selected()
        for message in messages:
            try:
                seen = message if self._seen is None else self._seen(message, budget)
                if self._sql is not None and self._seen and not self._sql.matches(seen.properties):
                    continue
                if self._holds((seen.properties,)) or self._holds(budget.pieces(seen)):
                    selected.messages.append(message)
            except (CompressionError, BudgetSpent) as error:
                problem = budget.problem_of(message, error)
                if self._seen is None and problem.kind == "damaged" and self._holds((message.body,)):
                    selected.messages.append(message)
                    continue
                selected.unread += 1
                selected.reason = problem.text
        return selected

    def _holds(self, pieces: Iterable[bytes]) -> bool:
        """True if the text is somewhere in the pieces put together."""
        lowered = _Lowered()
        before = b""
        for piece in pieces:
            part = before + lowered.of(piece)
            if self._text in part:
                return True
            before = part[len(part) - len(self._text) + 1 :] if len(self._text) > 1 else b""
        return False


class _Lowered:
    """Small letters of all scripts, of text that comes in pieces; bytes that are no text stay as they are."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def of(self, piece: bytes) -> bytes:
        """The next piece; a character that is cut comes with the piece after it."""
        if piece.isascii() and not self._decoder.getstate()[0]:
            return piece.lower()
        return self._decoder.decode(piece).lower().encode("utf-8", "surrogateescape")
