"""Replies to changes of tables, held until the change is in its file."""

from __future__ import annotations

from orbitmq.handling.call import Outcome, Result, Saved, Wait
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.declare import Reply

SAVE_TIMEOUT_MS = 3_000
"""Longest wait for a table to be written. The reply is then an error, since the change may be lost. A later
reply would come too late: clients wait 3 s after a send, and Apache's mqadmin 5 s after a change."""


def after_saving(dirty_tables: DirtyTables, reply: Reply, now: int, *tables: str) -> Result:
    """The reply, held until those of `tables` that are due to be written are in their files."""
    changed = tuple(Saved(table) for table in tables if dirty_tables.is_due(table))
    if not changed:
        return reply

    def then(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "the change is made, and was not saved in time here and at all slaves in sync",
            )
        return reply

    return Wait(changed, now + SAVE_TIMEOUT_MS, then)
