"""Warnings at the start of a controller."""

from __future__ import annotations

import pytest

from orbitmq.controller.options import ControllerSettings
from orbitmq.server.controller.server import warn_of_gaps

OPERATOR = '{"username":"root","password":"r-secret"}'


@pytest.mark.parametrize(
    ("host", "options", "says"),
    [
        ("127.0.0.1", {}, ""),
        ("0.0.0.0", {}, "anybody who reaches the port on 0.0.0.0"),
        ("10.0.0.1", {"authentication_enabled": True}, "no operator is known"),
        ("10.0.0.1", {"authentication_enabled": True, "init_authentication_user": OPERATOR}, ""),
    ],
)
def test_a_port_that_is_open_to_strangers_is_warned_of(
    host: str, options: dict[str, object], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_gaps(ControllerSettings(**options), host)  # type: ignore[arg-type]
    assert says in caplog.text
    assert bool(caplog.text) == bool(says)
