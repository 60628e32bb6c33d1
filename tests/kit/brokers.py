"""Choices of the brokers that a test is run against, and of the forms of a test that run at night."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

_BOTH = ["orbitmq", "apache"]
BOTH_BROKERS = pytest.mark.parametrize("cluster", _BOTH, indirect=True)
"""Runs a test against OrbitMQ and against Apache's broker with every change; without it, Apache's is for the
night."""
BOTH_SERVERS = pytest.mark.parametrize("server", _BOTH, indirect=True)
"""The same for tests of Spark."""


def others_at_night(forms: Iterable[object], always: Iterable[object]) -> list[object]:
    """The forms of a test as pytest parameters: those of `always` run with every change, others at night."""
    kept = list(always)
    return [form if form in kept else pytest.param(form, marks=pytest.mark.nightly) for form in forms]
