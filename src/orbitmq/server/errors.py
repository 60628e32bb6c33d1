"""Reasons why a server could not start; each is one line for the person who started it."""

from __future__ import annotations

from orbitmq.protocol.errors import OrbitError


class StartError(OrbitError):
    """The server did not start."""


class CannotListen(StartError):
    """An address could not be listened on."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address
