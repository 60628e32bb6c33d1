"""Changes on their way into the consensus store, in their order.

Rules work on the state with all changes in it; an answer leaves once the store has taken what it rests on. If
the store refuses a change, the controller does not lead any more, and drops state and journal together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.handling.call import Durable, Outcome, Result, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.declare import Reply

COMMIT_TIMEOUT_MS = 3_000
"""Time that an answer waits for the consensus store."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes for one transaction: the new text by key, None to delete. `version` is that of the last one."""

    version: int
    changes: Mapping[str, str | None]


class Journal:
    """Counts changes, and those that the store holds."""

    def __init__(self) -> None:
        self.version = 0
        """Changes made so far."""
        self.committed = 0
        """Changes that the store holds, or that were dropped."""
        self.term = 0
        """Grows whenever what was not committed is dropped."""
        self._pending: dict[str, str | None] = {}

    def put(self, key: str, text: str | None) -> None:
        """One change: a new text, or None to delete the key."""
        self.version += 1
        self._pending[key] = text

    def drain(self) -> Batch | None:
        """Changes since the last call, or None."""
        if not self._pending:
            return None
        batch = Batch(self.version, self._pending)
        self._pending = {}
        return batch

    def confirm(self, batch: Batch) -> None:
        self.committed = max(self.committed, batch.version)

    def drop(self) -> None:
        """Nothing that is not committed will be: those who wait are refused."""
        self.term += 1
        self._pending = {}
        self.committed = self.version

    def after_commit(self, reply: Reply, now: int) -> Result:
        """The reply, held until the store holds every change so far."""
        if self.committed >= self.version:
            return reply
        term = self.term

        def then(outcome: Outcome, later: int) -> Result:
            if outcome.timed_out:
                raise Refused(
                    ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR,
                    "the consensus store did not take the change in time; it may take it later: ask again",
                )
            if self.term != term:
                raise not_leader()
            return reply

        return Wait((Durable(self.version),), now + COMMIT_TIMEOUT_MS, then)


def not_leader() -> Refused:
    """The answer of a controller that does not lead."""
    return Refused(
        ResponseCode.CONTROLLER_NOT_LEADER,
        "this controller does not lead: ask GET_METADATA_INFO for the leader's address",
    )
