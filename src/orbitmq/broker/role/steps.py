"""The steps of a change of role, in their order.

The order keeps the promise: before the new role begins, the old one acknowledges nothing any more, and a new
master takes messages only once all of the log is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from orbitmq.broker.role.role import Role, RoleChange


class ChangeStep(Enum):
    """One step, which the server carries out."""

    FENCE = auto()
    """The role is unknown: requests that store something are refused, and no acknowledgement begins."""
    STOP_ACTING = auto()
    """A slave ends its master's work, and notes how far it got."""
    END_WAITING = auto()
    """Calls that wait for what only a master does are answered; readers see no more than is confirmed."""
    STOP_TASKS = auto()
    STORE_MEMORY = auto()
    """State that a master has in memory alone goes into its log."""
    LEVEL_SLAVES = auto()
    """Slaves that are in sync get the end of the log."""
    STOP_SOCKETS = auto()
    """No slave is served, and no master followed."""
    DROP_PARTIAL_RECORD = auto()
    END_MASTERSHIP = auto()
    """The rules let go of a master's work; timers are opened where it stopped."""
    WITHDRAW = auto()
    """The broker leaves the routes under the id that it had."""
    FORGET_MASTER = auto()
    BEGIN_EPOCH = auto()
    """The beginning of a master's epoch is on the disk before its first byte."""
    LISTEN = auto()
    """Slaves may connect."""
    OPEN_TIMERS = auto()
    NOTE_ROLE = auto()
    """Options and routes say the new role and id."""
    CONFIRM_ALL = auto()
    """All of the log counts as confirmed: it is the group's."""
    TAKE_MESSAGES = auto()
    """The store takes what the rules append."""
    BEGIN_MASTERSHIP = auto()
    """The rules take up what the log says is open."""
    LEAD = auto()
    """The broker is master: clients may send."""
    FOLLOW = auto()
    """The broker is a slave, and connects to its master."""


def leaving(role: Role, change: RoleChange) -> Iterator[ChangeStep]:
    """The end of the role that a broker has."""
    was_master = role is Role.MASTER
    yield ChangeStep.FENCE
    yield ChangeStep.STOP_ACTING
    hands_over = was_master and change.hands_over
    if not hands_over:
        yield ChangeStep.END_WAITING
    yield ChangeStep.STOP_TASKS
    if hands_over:
        yield ChangeStep.STORE_MEMORY
        yield ChangeStep.LEVEL_SLAVES
        yield ChangeStep.END_WAITING
    yield ChangeStep.STOP_SOCKETS
    yield ChangeStep.DROP_PARTIAL_RECORD
    if was_master:
        yield ChangeStep.END_MASTERSHIP
    yield ChangeStep.WITHDRAW
    yield ChangeStep.FORGET_MASTER


def beginning(change: RoleChange, *, has_controller: bool) -> Iterator[ChangeStep]:
    """The beginning of the role that a broker is to have."""
    if change.role is Role.MASTER:
        if has_controller:
            yield ChangeStep.BEGIN_EPOCH
        yield ChangeStep.LISTEN
        yield ChangeStep.OPEN_TIMERS
        yield ChangeStep.NOTE_ROLE
        yield ChangeStep.CONFIRM_ALL
        yield ChangeStep.TAKE_MESSAGES
        yield ChangeStep.BEGIN_MASTERSHIP
        yield ChangeStep.LEAD
    elif change.role is Role.SLAVE:
        yield ChangeStep.NOTE_ROLE
        yield ChangeStep.FOLLOW
