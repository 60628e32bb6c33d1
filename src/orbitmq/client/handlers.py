"""What an application hands to a consumer: handlers, and how they say that a message is to come again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.client.errors import IllegalMessage
from orbitmq.client.message import ReceivedMessage, as_bytes
from orbitmq.protocol.names import RESERVED_PROPERTIES


@dataclass(slots=True, frozen=True)
class Retry:
    """A handler returns this where it could not handle the message: it is handed out again later.

    `delay_level` 1 to 18 says when (1s 5s 10s 30s 1m 2m ...), 0 leaves it to the broker, which waits longer
    each time; -1 gives the message up at once: it goes to the group's dead-letter queue. An exception means
    the same as `Retry()`. An ordered consumer repeats the message in place and heeds no level.
    """

    delay_level: int = 0


RETRY = Retry()
"""Hand the message out again, when the broker thinks fit."""


class Reply:
    """A handler returns this to answer a message that was sent as a request (`Producer.request`).

    The message is done then. A reply that cannot be delivered, since whoever asked has gone for example, is
    told to `on_error`. The handler of a message that nobody waits for may return it too: it is told likewise.
    """

    __slots__ = ("body", "properties")

    def __init__(
        self, body: bytes | bytearray | memoryview | str, properties: Mapping[str, str] | None = None
    ) -> None:
        self.body = as_bytes(body)
        self.properties: Mapping[str, str] = properties or {}
        if not RESERVED_PROPERTIES.isdisjoint(self.properties):
            taken = ", ".join(sorted(RESERVED_PROPERTIES.intersection(self.properties)))
            raise IllegalMessage(f"properties {taken} are RocketMQ's own: choose another name")


Outcome: TypeAlias = Retry | Reply | None
"""None: done."""
Handler: TypeAlias = Callable[[ReceivedMessage], Awaitable[Outcome] | Outcome]
"""An async function, or a plain one, which then runs in a thread."""
