"""Counts of outcomes, and observers that pass them on."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Protocol

from orbitmq.idempotence.keys import Scope


class Event(StrEnum):
    """Something that happened to messages, or to entries of the store."""

    HANDLED = "handled"
    """The handler ran, and its effect is committed."""
    DUPLICATE = "duplicate"
    """Handled before: suppressed."""
    IN_FLIGHT = "in_flight"
    """Being handled elsewhere: held back."""
    CONFLICT = "conflict"
    """A known key with another body: given up."""
    INVALID_KEY = "invalid_key"
    FAILED = "failed"
    """The handler failed or asked for a retry: nothing was left behind."""
    UNAVAILABLE = "unavailable"
    """The store could not be reached: held back."""
    PURGED = "purged"
    """Entries deleted after their retention."""


class Observer(Protocol):
    """Hears of every event, in the thread or task of the handler; it must be quick and may not raise."""

    def seen(self, event: Event, scope: Scope, count: int) -> None:
        """Called with the number of messages, or of entries."""

    def rows(self, scope: Scope, count: int) -> None:
        """Called after each clean-up with the number of entries in the store."""


class Counts(Observer):
    """Sums of events of one handler."""

    def __init__(self) -> None:
        self.events: Counter[Event] = Counter()
        self.row_count = 0
        """Number of entries in the store at the last clean-up."""

    def seen(self, event: Event, scope: Scope, count: int) -> None:
        """Add to the sum."""
        self.events[event] += count

    def rows(self, scope: Scope, count: int) -> None:
        """Keep the number."""
        self.row_count = count

    def __getitem__(self, event: Event) -> int:
        return self.events[event]
