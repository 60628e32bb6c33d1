"""The gate before the dispatcher: requests that may not be served are answered here, and logged.

A broker without access control has none of this in its way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from orbitmq.broker.options import BrokerSettings
from orbitmq.handling.call import Peer
from orbitmq.net.connection import Connection
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.schema.declare import REQUESTS

log = logging.getLogger(__name__)

MAX_LOGGED_CHARACTERS = 400
LOG_LINES_PER_SECOND = 10
"""Refusals logged one by one; of more than that only the number is."""


class Gate(Protocol):
    """The rules that decide."""

    def refusal(self, command: Command, peer: Peer, now: int) -> str | None: ...

    def admitted_bytes(self, data: bytes, peer: Peer, now: int) -> int: ...

    @property
    def changes(self) -> int: ...

    def withdrawal(self, command: Command, peer: Peer) -> str | None: ...


def warn_of_gaps(settings: BrokerSettings, has_users: bool) -> None:
    """Says at the start what is hardly meant so."""
    if settings.authorization_enabled and not settings.authentication_enabled:
        log.warning(
            "authorizationEnabled without authenticationEnabled: "
            "users are believed to be who they say they are"
        )
    if settings.authentication_enabled and not has_users:
        log.warning("no user is known, so every request will be refused: set initAuthenticationUser")


class Guard:
    """Hands on what may pass. `refused` counts the rest."""

    def __init__(
        self,
        gate: Gate,
        hand_on: Callable[[Connection, list[Command]], None],
        now: Callable[[], int],
    ) -> None:
        self._gate = gate
        self._hand_on = hand_on
        self._now = now
        self.refused = 0
        self._second = 0
        self._lines = 0

    def admit(self, connection: Connection, data: bytes) -> int:
        """Number of bytes at the start of a read that may be handled as frames; the rest comes to
        `on_requests`.
        """
        try:
            return self._gate.admitted_bytes(data, connection.peer, self._now())
        except Exception:
            log.exception("requests of %s could not be checked at once", connection.peer.address)
            return 0  # each is checked by itself

    def on_requests(self, connection: Connection, commands: list[Command]) -> None:
        """Takes the place of the dispatcher's method of this name."""
        now = self._now()
        refusal = self._gate.refusal
        peer = connection.peer
        passed = []
        for command in commands:
            remark = refusal(command, peer, now)
            if remark is None:
                passed.append(command)
                continue
            self._log(command, peer, remark, now)
            if not command.flag & 2:
                connection.send(
                    Command(ResponseCode.NO_PERMISSION, command.opaque, FLAG_RESPONSE, None, None, remark)
                )
        if passed:
            self._hand_on(connection, passed)

    def _log(self, command: Command, peer: Peer, remark: str, now: int) -> None:
        self.refused += 1
        second = now // 1000
        if second != self._second:
            if self._lines > LOG_LINES_PER_SECOND:
                log.warning("%d more requests were refused", self._lines - LOG_LINES_PER_SECOND)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LOG_LINES_PER_SECOND:
            kind = REQUESTS.get(command.code)
            name = kind.NAME if kind is not None else f"request {command.code}"
            # The remark holds what the sender calls itself: nothing of that may break out of the line.
            log.warning("refused %s of %s: %s", name, peer.address, _one_line(remark))


def _one_line(remark: str) -> str:
    text = remark.encode("unicode_escape").decode()
    return text if len(text) <= MAX_LOGGED_CHARACTERS else text[:MAX_LOGGED_CHARACTERS] + "..."
