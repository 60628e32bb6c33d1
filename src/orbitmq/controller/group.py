"""A broker group as the consensus store keeps it, and its text there.

A group is a value: each step returns a new one. Epochs only grow, and an epoch has one master for ever: both
are decided here, and a step counts once the store has taken it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Election:
    """One change of a group's master, for the people who operate it."""

    at_ms: int
    """Wall clock of the controller that decided."""
    master_epoch: int
    master_id: int | None
    """None: the group lost its master and nobody could take over."""
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

    @property
    def master_address(self) -> str | None:
        """Address of the master, if there is one."""
        return None if self.master_id is None else self.replicas[self.master_id].address

    @property
    def last_master_id(self) -> int | None:
        """The master, or the one before where the group has lost its own."""
        if self.master_id is not None:
            return self.master_id
        return next((one.master_id for one in reversed(self.elections) if one.master_id is not None), None)

    @property
    def was_never_elected(self) -> bool:
        """True if the group has had no master yet."""
        return self.master_epoch == 0

    def with_replica(self, broker_id: int, replica: Replica) -> BrokerGroup:
        """The group with a member added or replaced."""
        next_id = max(self.next_id, broker_id + 1)
        return replace(self, replicas={**self.replicas, broker_id: replica}, next_id=next_id)

    def without_replicas(self, broker_ids: frozenset[int]) -> BrokerGroup:
        """The group without some members; a master among them is none any more."""
        kept = {one: replica for one, replica in self.replicas.items() if one not in broker_ids}
        gone = self.master_id in broker_ids
        return replace(
            self,
            replicas=kept,
            master_id=None if gone else self.master_id,
            sync_state_set=self.sync_state_set - broker_ids,
            sync_state_set_epoch=self.sync_state_set_epoch + 1,
        )

    def with_sync_state_set(self, broker_ids: frozenset[int]) -> BrokerGroup:
        """The group after its master has reported who is in sync."""
        return replace(self, sync_state_set=broker_ids, sync_state_set_epoch=self.sync_state_set_epoch + 1)

    def elected(self, election: Election) -> BrokerGroup:
        """The group after an election: a new epoch with its master, alone in the in-sync set."""
        master_id = election.master_id
        kept = (*self.elections, election)[-MAX_ELECTIONS_KEPT:]
        if master_id is None:
            return replace(self, master_id=None, elections=kept)
        return replace(
            self,
            master_id=master_id,
            master_epoch=election.master_epoch,
            sync_state_set=frozenset((master_id,)),
            sync_state_set_epoch=self.sync_state_set_epoch + 1,
            elections=kept,
        )

    def to_text(self) -> str:
        """The value in the consensus store."""
        return json.dumps(
            {
                "format": _FORMAT,
                "cluster": self.cluster,
                "name": self.name,
                "nextId": self.next_id,
                "replicas": {
                    str(broker_id): {"address": one.address, "checkCode": one.check_code}
                    for broker_id, one in sorted(self.replicas.items())
                },
                "masterId": self.master_id,
                "masterEpoch": self.master_epoch,
                "syncStateSet": sorted(self.sync_state_set),
                "syncStateSetEpoch": self.sync_state_set_epoch,
                "elections": [_election_fields(one) for one in self.elections],
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_text(cls, text: str) -> BrokerGroup:
        """Reads `to_text`. Raises UnreadableGroup."""
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT:
                raise UnreadableGroup(f"format {found['format']!r}; this release reads {_FORMAT}")
            return cls(
                cluster=str(found["cluster"]),
                name=str(found["name"]),
                replicas={
                    int(broker_id): Replica(str(one["address"]), str(one["checkCode"]))
                    for broker_id, one in found["replicas"].items()
                },
                master_id=None if found["masterId"] is None else int(found["masterId"]),
                master_epoch=int(found["masterEpoch"]),
                sync_state_set=frozenset(int(one) for one in found["syncStateSet"]),
                sync_state_set_epoch=int(found["syncStateSetEpoch"]),
                elections=tuple(_election(one) for one in found["elections"]),
                next_id=int(found["nextId"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableGroup(f"{type(error).__name__}: {error}") from None


def _election_fields(one: Election) -> dict[str, Any]:
    return {
        "atMs": one.at_ms,
        "masterEpoch": one.master_epoch,
        "masterId": one.master_id,
        "masterAddress": one.master_address,
        "reason": one.reason,
        "withoutMasterMs": one.without_master_ms,
        "isUnclean": one.is_unclean,
        "lostBytes": one.lost_bytes,
    }


def _election(fields: Mapping[str, Any]) -> Election:
    return Election(
        at_ms=int(fields["atMs"]),
        master_epoch=int(fields["masterEpoch"]),
        master_id=None if fields["masterId"] is None else int(fields["masterId"]),
        master_address=str(fields["masterAddress"]),
        reason=str(fields["reason"]),
        without_master_ms=int(fields["withoutMasterMs"]),
        is_unclean=bool(fields["isUnclean"]),
        lost_bytes=int(fields["lostBytes"]),
    )
