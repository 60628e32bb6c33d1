"""The role of a broker in its group, as a state that may change while it serves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from orbitmq.handling.call import Signal
from orbitmq.options import RefusedValue

SLAVE = "SLAVE"
ASYNC_MASTER = "ASYNC_MASTER"
SYNC_MASTER = "SYNC_MASTER"
"""Values of the option brokerRole."""
CHANGE_TIMEOUT_MS = 30_000
"""Longest wait of an administrator for a change of role."""


class Role(Enum):
    """A master takes messages. A slave follows a master. A broker whose role is unknown does neither: it is
    between two roles, or waits for one.
    """

    MASTER = "master"
    SLAVE = "slave"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The role that a broker is to have, and what belongs to it."""

    role: Role
    broker_id: int
    """Its id in routes: 0 for a master, above 0 for a slave; an unknown one keeps out of routes."""
    waits_for_replicas: bool = False
    """A master is a SYNC_MASTER, else an ASYNC_MASTER."""
    master_address: str = ""
    """A slave's master for requests, `host:port`; empty: the name servers say it."""
    master_ha_address: str = ""
    """Its HA port, `host:port`; empty: the name servers say it."""
    epoch: int = 0
    """The number of this change among those of its group, where a controller counts them; 0 without one."""
    hands_over: bool = False
    """This broker still is the only master: it may store what it has in memory alone (check points of pops)
    before it leaves the role. Not after another one was elected: the logs would go different ways.
    """

    def check(self) -> None:
        """Raises RefusedValue for an id that does not go with the role."""
        if (self.role is Role.MASTER) != (self.broker_id == 0) and self.role is not Role.UNKNOWN:
            raise RefusedValue(
                "brokerId",
                self.broker_id,
                "a master has 0, a slave a number above 0 that no other broker of its group has: "
                "give brokerId together with brokerRole",
                "update",
            )

    @property
    def broker_role(self) -> str:
        """The value of the option brokerRole."""
        if self.role is not Role.MASTER:
            return SLAVE
        return SYNC_MASTER if self.waits_for_replicas else ASYNC_MASTER


class RequestedChange:
    """A change of role that an administrator waits for. `done` is given when it has ended, `error` before
    it where it has failed.
    """

    def __init__(self, change: RoleChange) -> None:
        self.change = change
        self.done = Signal()
        self.error: Exception | None = None


class RoleRequests:
    """Changes of role that were asked for over the network and have not begun."""

    def __init__(self) -> None:
        self.pending: deque[RequestedChange] = deque()
        self.has_news = False
        """The controller has notified this broker that a role has changed."""

    def ask(self, change: RoleChange) -> RequestedChange:
        """Notes a change; the server carries it out after the turn."""
        requested = RequestedChange(change)
        self.pending.append(requested)
        return requested
