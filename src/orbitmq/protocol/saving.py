"""Replies that promise a change wait until the file holds it."""

from __future__ import annotations

from typing import Protocol

from orbitmq.protocol.call import Outcome, Result, Saved, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.declare import Reply
from orbitmq.protocol.errors import Refused

SAVE_TIMEOUT_MS = 3_000
"""A reply waits no longer for its table to be written; it is then an error, since the change may be lost."""


class Unsaved(Protocol):
    """Knows which tables are about to be written to their files."""

    def is_due(self, table: str) -> bool: ...


def after_saving(unsaved: Unsaved, reply: Reply, now: int, *tables: str) -> Result:
    """The reply, held until those of `tables` that are about to be written are in their files."""
    changed = tuple(Saved(table) for table in tables if unsaved.is_due(table))
    if not changed:
        return reply

    def settled(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the change is made but could not be saved")
        return reply

    return Wait(changed, now + SAVE_TIMEOUT_MS, settled)
