"""Values of the store: a message that waits, and the entry of its name.

They are arrays of MessagePack: a field may be added at the end with a default, which older records then have.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Kind(IntEnum):
    """The purpose of a pending message; the last byte of its key."""

    MESSAGE = 0
    """Scheduled by a user."""
    REPLY = 1
    """The outcome of an order, for `delay.reply`."""
    DEAD = 2
    """A dead letter."""


class Repeat(msgspec.Struct, array_like=True, frozen=True, omit_defaults=False):
    """The rule by which a message comes again."""

    every_ms: int = 0
    """Interval before the next time; 0 for cron and powers."""
    factor: float = 1.0
    """Growth of the interval from one time to the next."""
    times: int = 0
    """Number of times in all; 0: no limit."""
    until: int = -1
    """Last time (ms), itself included; -1: no limit."""
    cron: str = ""
    zone: str = ""
    catch_up: str = "last"
    """Treatment of missed times: none, last or all."""
    base_s: int = 0
    """DDMQ's powers: the n-th interval is base to the power of n seconds, a day at most."""


class Content(msgspec.Struct, array_like=True, frozen=True):
    """A message as its source has it: of RocketMQ with `properties`, of Kafka with `headers`."""

    body: bytes | None
    properties: dict[str, str] | None = None
    flag: int = 0
    headers: list[tuple[str, bytes | None]] | None = None
    key: bytes | None = None

    @property
    def is_kafka(self) -> bool:
        return self.headers is not None


class Pending(msgspec.Struct, array_like=True):
    """A message that waits. Its key holds target, due time and position."""

    name: str
    cluster: int
    """Number of the cluster it came from, to which the name belongs."""
    due: int
    """Time that was asked for (ms); may be long past."""
    content: Content
    occurrence: int = 1
    expires: int = -1
    """Time (ms) from which on it is not delivered; -1: none."""
    repeat: Repeat | None = None
    outcome: str = ""
    """Of a reply."""
    reason: str = ""
    """Of a reply or a dead letter."""
    ddmq: str = ""
    """The id of this occurrence, if it came in DDMQ's form."""
    owner: str = ""
    """The sender that may change it; empty: anybody."""
    due_known: bool = True
    """False for a reply or dead letter of an order without a valid time."""


class NameEntry(msgspec.Struct, array_like=True, frozen=True):
    """The entry of a name: the key of its pending message."""

    key: bytes
    ending: bool = False
    """A repetition was cancelled while an occurrence was on its way: it does not come again."""
    owner: str = ""


class Restored(msgspec.Struct, array_like=True, frozen=True):
    """A restore: messages due before `begin` that were stored at their source before it have left."""

    at: int
    """Time of the restore (ms)."""
    begin: int


encode = msgspec.msgpack.Encoder().encode
decode_pending = msgspec.msgpack.Decoder(Pending).decode
decode_entry = msgspec.msgpack.Decoder(NameEntry).decode
decode_restored = msgspec.msgpack.Decoder(Restored).decode
