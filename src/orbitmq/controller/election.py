"""The choice of a master: a living in-sync replica, or another one only where that is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.live import LiveBroker


class Choice(NamedTuple):
    """The member to be master; `is_unclean` if it was not in sync."""

    broker_id: int
    is_unclean: bool = False


def choose(
    group: BrokerGroup,
    live: Mapping[int, LiveBroker],
    *,
    preferred: int | None = None,
    first: int | None = None,
    allow_unclean: bool = False,
) -> Choice | None:
    """The next master of a group, or None if no member may be.

    A group that never had a master takes `first`, the member that asks. A living master stays, unless another
    is `preferred`, which then is the only candidate.
    """
    if group.was_never_elected and first is not None and first in group.replicas:
        return Choice(first)
    eligible = [one for one in group.sync_state_set if one in live and one in group.replicas]
    chosen = _best(eligible, group, live, preferred)
    if chosen is not None:
        return Choice(chosen)
    if not allow_unclean:
        return None
    chosen = _best([one for one in group.replicas if one in live], group, live, preferred)
    return None if chosen is None else Choice(chosen, is_unclean=chosen not in group.sync_state_set)


def _best(
    candidates: Collection[int], group: BrokerGroup, live: Mapping[int, LiveBroker], preferred: int | None
) -> int | None:
    if preferred is not None:
        return preferred if preferred in candidates else None
    if group.master_id in candidates:
        return group.master_id
    return most_complete({one: live[one] for one in candidates})


def most_complete(candidates: Mapping[int, LiveBroker]) -> int | None:
    """The member with the most complete log; None without candidates."""
    return min(candidates, key=lambda one: _rank(one, candidates[one]), default=None)


def _rank(broker_id: int, broker: LiveBroker) -> tuple[int, int, int, int]:
    """The most complete log first, then the operator's preference, then the smallest id."""
    return -broker.epoch, -broker.max_offset, broker.election_priority, broker_id
