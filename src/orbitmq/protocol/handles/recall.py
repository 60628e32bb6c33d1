"""Recall handles: what a producer keeps of a timer message to take it back before it is delivered.

base64url of `v1 topic broker time id`, blanks between; the time is TIMER_OUT_MS + 1, in ms.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from orbitmq.protocol.errors import Malformed

VERSION = "v1"


class MalformedHandle(Malformed):
    """Text that is no recall handle."""


class RecallHandle(NamedTuple):
    """The parts of a handle."""

    topic: str
    broker_name: str
    time_ms: int
    unique_id: str

    def encode(self) -> str:
        raw = f"{VERSION} {self.topic} {self.broker_name} {self.time_ms} {self.unique_id}"
        return urlsafe_b64encode(raw.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Takes a handle apart; a time that is no number is -1. Raises MalformedHandle."""
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            raw = urlsafe_b64decode(padded).decode()
        except (UnicodeError, binascii.Error, ValueError):
            raise MalformedHandle("recall handle is invalid") from None
        items = raw.split(" ")
        if items[0] != VERSION or len(items) < 5 or not items[4]:
            raise MalformedHandle("recall handle is invalid")
        _, topic, broker_name, time, unique_id, *_ = items
        is_number = time.isascii() and time.isdigit() and len(time) <= 18
        return cls(topic, broker_name, int(time) if is_number else -1, unique_id)
