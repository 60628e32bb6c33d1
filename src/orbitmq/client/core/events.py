"""Events of its connections that an application may hear of: `on_event=` of every producer and consumer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ClientEventKind(Enum):
    """Kind of an event."""

    CONNECTED = "connected"
    """A connection to `address` is open for the first time."""
    DISCONNECTED = "disconnected"
    """The connection to `address` ended."""
    RECONNECTED = "reconnected"
    """It is open again."""
    UNANSWERED = "unanswered"
    """No answer: no name server, or no broker that takes a message; `error` says what was tried."""
    ANSWERED = "answered"
    """Somebody answers again."""


@dataclass(slots=True, frozen=True)
class ClientEvent:
    """One thing that has happened."""

    kind: ClientEventKind
    address: str = ""
    error: Exception | None = None
