"""Keys that end before dead letters do are warned of, with both figures."""

from __future__ import annotations

from orbitmq.idempotence.keys import Scope
from orbitmq.idempotence.retention import retention_warning

SCOPE = Scope("billing", "", "charge")


def test_a_retention_shorter_than_that_of_dead_letters_is_warned_of_with_both_figures() -> None:
    warning = retention_warning(SCOPE, 24, 72)
    assert warning is not None
    assert "kept for 24 h, dead letters for 72 h" in warning
    assert "retention_hours=72" in warning


def test_a_retention_that_is_long_enough_or_cannot_be_compared_is_not() -> None:
    assert retention_warning(SCOPE, 72, 72) is None
    assert retention_warning(SCOPE, 1, None) is None
