"""Roles: each may do what the one before it may, and more."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """Role of a user of the console."""

    VIEWER = 1
    """See everything but secrets. Reading bodies is a right of its own, which no role implies."""
    OPERATOR = 2
    """Publish, reset offsets, send dead letters again, recall timers."""
    ADMIN = 3
    """Create, change and delete topics, groups, users of brokers; set options; read the audit log."""

    @property
    def title(self) -> str:
        """`viewer`, as users are written."""
        return self.name.lower()


def parse_role(text: str) -> Role:
    """The role with this title. Raises ValueError."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise ValueError(f"{text!r} is no role: viewer, operator or admin") from None
