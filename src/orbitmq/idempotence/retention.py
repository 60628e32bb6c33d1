"""The rule that keys are kept for at least as long as dead letters: a late redrive would act twice."""

from __future__ import annotations

from orbitmq.idempotence.keys import Scope


def retention_warning(
    scope: Scope, retention_hours: float, dead_letter_retention_hours: float | None
) -> str | None:
    """The warning at start, None if the retention is long enough or the brokers' is not known."""
    if dead_letter_retention_hours is None or retention_hours >= dead_letter_retention_hours:
        return None
    return (
        f"keys of {scope.handler} in group {scope.group} are kept for {retention_hours:g} h, dead letters "
        f"for {dead_letter_retention_hours:g} h: a message that is redriven later than "
        f"{retention_hours:g} h after it was handled would act twice. Give the store "
        f"retention_hours={dead_letter_retention_hours:g} or more"
    )
