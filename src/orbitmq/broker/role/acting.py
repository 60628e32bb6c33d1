"""A slave that stands in for a master that is away (enableSlaveActingMaster): what it is to do next.

Name servers say which members of the group live; the one with the smallest id stands in. With
enableRemoteEscape it does the master's work too, and has to end that before it stops standing in: the master
that comes back waits for it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.role.options import GroupOptions
from orbitmq.broker.role.role import Role
from orbitmq.broker.role.state import RoleState


class ActingStep(Enum):
    """The server's next step."""

    ACT = "act"
    """Stand in: clients may read, lock and commit here."""
    BEGIN_WORK = "begin the work"
    WORK = "work"
    END_WORK = "end the work"
    """Note how far it got."""
    STOP = "stop acting"
    REST = "rest"


class StandIn:
    """One broker's. It reads the role, which the server changes as the steps say."""

    def __init__(self, settings: GroupOptions, identity: BrokerIdentity, role: RoleState) -> None:
        self._settings = settings
        self._identity = identity
        self._role = role
        self._is_first = False
        """This broker has the smallest id of all members that live."""
        self._is_leaving = False

    def group_heard(self, members: Collection[int] | None) -> None:
        """Name servers have said which members live; None where none has answered: then no route names an
        acting master either.
        """
        self._is_first = bool(members) and min(members or ()) == self._identity.broker_id

    def leave(self) -> None:
        """The role changes: the work ends now, and it is not taken up before the group was heard of again."""
        self._is_leaving, self._is_first = True, False

    def left(self) -> None:
        """The work has ended."""
        self._is_leaving = False

    def _acts(self) -> bool:
        return self._is_first and not self._is_leaving and self._role.current is Role.SLAVE

    def may_work(self, *, has_master: bool) -> bool:
        """True if the master's work may continue; name servers may have missed heartbeats of one that
        lives.
        """
        can = self._role.is_acting and bool(self._settings.enable_remote_escape)
        return can and self._acts() and not has_master

    def next_step(self, *, has_master: bool) -> ActingStep:
        """The next step; `has_master` tells if the connection to the master holds."""
        role = self._role
        if self.may_work(has_master=has_master):
            return ActingStep.WORK if role.works_for_master else ActingStep.BEGIN_WORK
        if role.works_for_master:
            return ActingStep.END_WORK
        if role.is_acting is self._acts():
            return ActingStep.REST
        return ActingStep.STOP if role.is_acting else ActingStep.ACT
