"""A broker group as the consensus store keeps it, and its text there.

A group is a value: each step returns a new one. Epochs only grow, and an epoch has one master for ever: both
are decided here, and a step counts once the store has taken it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orbitmq.controller.live import DEFAULT_TIMEOUT_MS
from orbitmq.controller.stored import from_json, to_json

FIRST_BROKER_ID = 1
"""The id that the first member of a group takes."""
MAX_ELECTIONS_KEPT = 64
"""Elections that a group remembers, the newest last."""
_FORMAT = 1
UNKNOWN_LOSS = -1
"""Value of `lost_bytes` where it is not known."""


class UnreadableGroup(Exception):
    """The consensus store holds a group that this release cannot read."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One member of a group: where it was last, and the code that shows who took its id."""

    address: str = ""
    """Empty until it has registered."""
    check_code: str = ""
    was_heard: bool = True
    """False for a new member until its first heartbeat with an epoch that the group has had."""
    run: str = ""
    """The run of its process that registered last; empty if that may not be left to a blind master."""

    def is_elsewhere(self, address: str) -> bool:
        """True if its process may run at another address without being heard: only the end of the one
        process lets another one have its id.
        """
        return bool(self.run) and address != self.address

    def has_all(self, run: str | None, last_run: str | None) -> bool:
        """True if a process that registers so has the log of the one that did before it."""
        return not self.run if run is None else self.run in (run, last_run)


@dataclass(frozen=True, slots=True)
class Election:
    """One election of a group's master, for the people who operate it. No two of a group have one epoch."""

    at_ms: int
    """Wall clock of the controller that decided."""
    master_epoch: int
    master_id: int
    master_address: str
    reason: str
    without_master_ms: int = 0
    """From the last sign of the master before until this election."""
    is_unclean: bool = False
    """The master was no in-sync replica: what it had not copied is gone."""
    lost_bytes: int = 0
    """Of an unclean election: by how much its log was behind the last one reported by the master before.

    UNKNOWN_LOSS if no controller of now has heard that master.
    """
    ended_ms: int | None = None
    """Wall clock of the moment at which the group had no master any more. None if it has this one, or if
    another election followed at once.
    """
    ended_because: str = ""


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """Members, the master with its epoch, and the members that hold everything confirmed."""

    cluster: str
    name: str
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    master_id: int | None = None
    master_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0
    elections: tuple[Election, ...] = ()
    next_id: int = FIRST_BROKER_ID
    """Never given out before, so that an id means one broker for ever."""
    lease_ms: int = DEFAULT_TIMEOUT_MS
    """Longest time for which the master may continue without a word of a controller; also a master before
    whose lease may still hold. A new leader waits for so long for a master that it has not heard.
    """
    waits_for_lease: bool = False
    """True from an election while another member's lease held until the new master has begun."""
    is_restored: bool = False
    """True if a member has had a later epoch, or a later in-sync set, than the store: its set is that of an
    older time.
    """
    begins_anew: bool = False
    """True if all members were removed: the next ones start over, behind the epochs of before."""
    reserve: frozenset[int] = frozenset()
    """The in-sync set out of which the master was elected, until it has reported one of its own: if it turns
    out that it lost the end of its log before it began, another one of these is elected.
    """
    reserve_epoch: int = 0
    """The epoch that the log of a master has to be behind, or it has not begun."""

    @property
    def master_address(self) -> str | None:
        return None if self.master_id is None else self.replicas[self.master_id].address

    @property
    def last_master_id(self) -> int | None:
        """The master, or the one before where the group has lost its own."""
        if self.master_id is not None:
            return self.master_id
        return self.elections[-1].master_id if self.elections else None

    @property
    def was_never_elected(self) -> bool:
        """True if none of its members was master yet."""
        return self.master_epoch == 0 or self.begins_anew

    def with_replica(self, broker_id: int, replica: Replica) -> BrokerGroup:
        """The group with a member added or replaced."""
        next_id = max(self.next_id, broker_id + 1)
        return replace(self, replicas={**self.replicas, broker_id: replica}, next_id=next_id)

    def without_replicas(self, broker_ids: frozenset[int]) -> BrokerGroup:
        """The group without some members; a master among them is none any more."""
        kept = {one: replica for one, replica in self.replicas.items() if one not in broker_ids}
        gone = self.master_id in broker_ids
        in_sync = self.sync_state_set - broker_ids
        return replace(
            self,
            replicas=kept,
            master_id=None if gone else self.master_id,
            sync_state_set=in_sync,
            sync_state_set_epoch=self.sync_state_set_epoch + (in_sync != self.sync_state_set),
            reserve=self.reserve - broker_ids,
            begins_anew=self.begins_anew or not kept,
            is_restored=self.is_restored and bool(kept),
            next_id=self.next_id if kept else FIRST_BROKER_ID,
        )

    def with_sync_state_set(self, broker_ids: frozenset[int]) -> BrokerGroup:
        """The group after its master has reported who is in sync."""
        return replace(self, sync_state_set=broker_ids, sync_state_set_epoch=self.sync_state_set_epoch + 1)

    def without_end_of(self, broker_id: int, log_epoch: int) -> BrokerGroup:
        """The group after a member has restarted that may lack the end of its log: it leaves the in-sync
        set, unless it is the last. The set counts as changed even so: a report of the master from before
        may rest on what that member had.
        """
        left, reserve = self.sync_state_set - {broker_id}, self.reserve - {broker_id}
        if not left and log_epoch <= self.reserve_epoch:
            left = reserve
        return replace(self, reserve=reserve).with_sync_state_set(left or self.sync_state_set)

    def elected(self, election: Election, lease_ms: int, *, waits_for_lease: bool = False) -> BrokerGroup:
        """The group after an election: a new epoch with its master, alone in the in-sync set."""
        reserve, reserve_epoch = self.sync_state_set, self.master_epoch
        if self.is_restored:
            reserve = frozenset()
        elif self.reserve and reserve == {election.master_id}:
            reserve, reserve_epoch = self.reserve, self.reserve_epoch  # it may not have begun in between
        return replace(
            self,
            master_id=election.master_id,
            master_epoch=election.master_epoch,
            sync_state_set=frozenset((election.master_id,)),
            sync_state_set_epoch=self.sync_state_set_epoch + 1,
            elections=(*self.elections, election)[-MAX_ELECTIONS_KEPT:],
            lease_ms=lease_ms,
            waits_for_lease=waits_for_lease,
            is_restored=False,
            begins_anew=False,
            reserve=reserve,
            reserve_epoch=reserve_epoch,
        )

    def without_master(self, now: int, reason: str) -> BrokerGroup:
        """The group after the end of a reign that no other follows at once."""
        ended = (replace(one, ended_ms=now, ended_because=reason) for one in self.elections[-1:])
        return replace(self, master_id=None, elections=(*self.elections[:-1], *ended))

    def to_text(self) -> str:
        """The value in the consensus store."""
        return json.dumps({"format": _FORMAT, **to_json(self)}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> BrokerGroup:
        """Reads `to_text`. Raises UnreadableGroup."""
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT:
                raise UnreadableGroup(f"format {found['format']!r}; this release reads {_FORMAT}")
            group: BrokerGroup = from_json(cls, {**found, "elections": _with_ends(found["elections"])})
            return group
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableGroup(f"{type(error).__name__}: {error}") from None


def _with_ends(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Releases up to 0.2 wrote a row without a master where a reign ended, with the epoch of that reign."""
    elections: list[Mapping[str, Any]] = []
    for row in rows:
        if row["masterId"] is not None:
            elections.append(row)
        elif elections:
            elections[-1] = {**elections[-1], "endedMs": row["atMs"], "endedBecause": row["reason"]}
    return elections
