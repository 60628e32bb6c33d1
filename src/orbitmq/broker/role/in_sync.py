"""The in-sync set of a master in controller mode: members that have to acknowledge, and who they should be.

The controller elects among these members alone. So a message counts as replicated once all of them have it,
and the set changes by the controller's word only. While a change was asked for and not answered, this broker
does not know which set an election would take: acknowledgements wait for the members of all sets that were
asked for. A request that was given up may still be carried out, until the controller has counted another
change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.broker.role.links import SlaveLink


class InSyncSet:
    """The set as the controller decided it, and as this master has asked it to be."""

    def __init__(self) -> None:
        self.own_id = 0
        """This broker's id in its group, which stays when its role changes."""
        self.ids: frozenset[int] = frozenset()
        self.epoch = 0
        """Number of the set's changes, by the controller's count."""
        self.asked: frozenset[int] | None = None
        """Members of all sets that the controller was asked for since `epoch`; None where it was not."""
        self.may_renew = True
        """False where the controller counts no change that leaves the set as it is (Apache's)."""
        self._mastership = 0
        self._reached = 0

    def begin(
        self, own_id: int, ids: Iterable[int], epoch: int, confirm_offset: int, mastership: int
    ) -> None:
        """Begins with the set of an election. Records that were confirmed before stay confirmed.

        In a `mastership` (its epoch) that continues, a request from before may still be carried out.
        """
        if mastership != self._mastership:
            self.own_id, self.ids, self.epoch, self.asked = own_id, frozenset(ids), epoch, None
            self._mastership, self.may_renew = mastership, True
        self.decided(ids, epoch)
        self._reached = confirm_offset

    def decided(self, ids: Iterable[int], epoch: int) -> bool:
        """Takes over a newer set than the one that is known: requests of before are refused from now on.

        The set of the same epoch says nothing of a request that is still on its way.
        """
        is_newer = epoch > self.epoch
        if is_newer:
            self.ids, self.epoch, self.asked = frozenset(ids), epoch, None
        return is_newer

    def ask(self, wanted: frozenset[int]) -> None:
        """Notes that the controller is asked for a set: its members count from now on."""
        self.asked = wanted if self.asked is None else self.asked | wanted

    @property
    def others(self) -> frozenset[int]:
        """Members besides this broker whose acknowledgements count."""
        members = self.ids if self.asked is None else self.ids | self.asked
        return members - {self.own_id}

    def replicated(self, links: Iterable[SlaveLink]) -> int | None:
        """The physical offset up to which all members hold the log; None where this broker is the only one.

        A member without a connection holds it back where it is.
        """
        others = self.others
        if not others:
            return None
        acknowledged = {link.broker_id: link.acknowledged for link in links}
        self._reached = max(self._reached, min(acknowledged.get(member, -1) for member in others))
        return self._reached

    def wanted(
        self, links: Iterable[SlaveLink], confirm_offset: int, epoch_start: int, max_lag_ms: int, now: int
    ) -> frozenset[int] | None:
        """The set that the controller is to be asked for; None where it is right as it is.

        A member leaves whose connection has ended, or which was not level with the log for `max_lag_ms`
        (haMaxTimeSlaveNotCatchup). A slave joins that holds all that was confirmed, and a part of this epoch.
        """
        here = {link.broker_id: link for link in links if link.broker_id}
        kept = {
            member
            for member in self.ids - {self.own_id}
            if member in here and now - here[member].caught_up_ms <= max_lag_ms
        }
        joining = {
            member
            for member, link in here.items()
            if member not in self.ids and link.acknowledged >= max(confirm_offset, epoch_start)
        }
        ids = frozenset(kept | joining | {self.own_id})
        if ids != self.ids:
            return ids
        if self.asked is None:
            return None
        # Any change that is counted settles what became of the others.
        return ids if self.may_renew else ids | self.asked


class Lease(NamedTuple):
    """The time for which a master may acknowledge without another word of the controller, in ms.

    It runs from the moment at which the heartbeat was sent that the controller has answered, and is shorter
    than the time after which the controller takes a silent broker for gone: no other member is elected before
    it is over.
    """

    until_ms: float = 0

    @classmethod
    def of(cls, sent_ms: int, heartbeat_timeout_ms: int) -> Lease:
        """The lease of a heartbeat that was answered; a tenth is left for clocks of different speed."""
        return cls(sent_ms + heartbeat_timeout_ms * 0.9)

    def holds(self, now: int) -> bool:
        """True while the lease holds."""
        return now < self.until_ms
