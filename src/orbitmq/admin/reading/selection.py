"""Selection of messages by tag, by an SQL92 expression, and by a text in body or properties."""

from __future__ import annotations

from orbitmq.admin.commands.messages import plain
from orbitmq.broker.filter.sql92 import compile_filter
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.message import StoredMessage

MAX_TEXT = 1000


class Selection:
    """Messages for which all that is given holds; empty is all of them. Raises BadExpression.

    `tag` is one or several with `||` between, `text` is found in capitals and in small letters.
    """

    def __init__(self, tag: str = "", sql: str = "", text: str = "") -> None:
        self._tags = {one.strip() for one in tag.split("||")} - {"", "*"}
        self._sql = compile_filter(sql) if sql.strip() else None
        self._text = text[:MAX_TEXT].lower().encode()

    def select(self, stored: StoredMessage) -> StoredMessage | None:
        """The message with a plain body if it is meant, else None."""
        if self._tags and stored.tags not in self._tags:
            return None
        if self._sql is not None and not self._sql.matches(stored.properties):
            return None
        try:
            message = plain(stored)
        except OrbitError:
            message = stored  # a body that cannot be inflated is looked at as it is stored
        if self._text and not self._holds(message):
            return None
        return message

    def _holds(self, message: StoredMessage) -> bool:
        return any(self._text in _lower(data) for data in (message.body, message.properties))


def _lower(data: bytes) -> bytes:
    """Small letters: of all scripts where it is text, else of ASCII."""
    if data.isascii():
        return data.lower()
    try:
        return data.decode().lower().encode()
    except UnicodeDecodeError:
        return data.lower()
