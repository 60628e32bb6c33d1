"""The gate before the dispatcher: requests that may not be served are answered here, and logged.

A request that names its resources in a long body is checked in a thread, and handled afterwards.
A broker without access control has none of this in its way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from orbitmq.broker.options import BrokerSettings
from orbitmq.handling.call import OFF_LOOP_TIMEOUT_MS, OffLoop, Outcome, Peer, Wait
from orbitmq.net.address import is_loopback
from orbitmq.net.connection import Connection
from orbitmq.options import RefusedValue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.schema.declare import REQUESTS

log = logging.getLogger(__name__)

MAX_LOGGED_CHARACTERS = 400
LOG_LINES_PER_SECOND = 10
"""Refusals logged one by one; of more than that only the number is."""

Checking: TypeAlias = Generator[None, None, str | None]
"""Steps that return the reason why a request may not be served, or None."""
Hold: TypeAlias = Callable[[int, Wait, Callable[[Outcome], None]], None]


class Gate(Protocol):
    """The rules that decide."""

    def refusal(self, command: Command, peer: Peer, now: int) -> str | Checking | None: ...

    def admitted_bytes(self, data: bytes, peer: Peer, now: int) -> int: ...

    @property
    def changes(self) -> int: ...

    def withdrawal(self, command: Command, peer: Peer) -> str | None: ...


def warn_of_gaps(settings: BrokerSettings, has_users: bool) -> None:
    """Warns at the start of settings that are hardly intended."""
    if settings.authorization_enabled and not settings.authentication_enabled:
        log.warning(
            "authorizationEnabled without authenticationEnabled: "
            "users are believed to be who they say they are"
        )
    if settings.authentication_enabled and not has_users:
        log.warning("no user is known, so every request will be refused: set initAuthenticationUser")
    if _has_open_ha_port(settings):
        log.warning(
            "authenticationEnabled with haAuthenticationEnable=false: the HA port sends the log to anybody "
            "who reaches it; open the port to the hosts of slaves alone"
        )


def require_ha_guard(settings: BrokerSettings) -> None:
    """Raises RefusedValue if the HA port would give to everybody what the other ports give to users only, and
    no option says that it may.
    """
    if _has_open_ha_port(settings) and "haAuthenticationEnable" not in settings.sources:
        raise RefusedValue(
            "authenticationEnabled",
            True,
            "the HA port would send all messages to anybody who reaches "
            f"{settings.bind_address or 'any address'} there. Set haAuthenticationEnable=true and "
            "innerClientAuthenticationCredentials at all brokers of the group, or, if Apache's brokers are "
            "in it or the port is open to slaves alone, say so: haAuthenticationEnable=false",
            settings.sources.get("authenticationEnabled", "settings"),
        )


def _has_open_ha_port(settings: BrokerSettings) -> bool:
    return (
        settings.authentication_enabled
        and not settings.ha_authentication_enable
        and not is_loopback(settings.bind_address)
    )


@dataclass(eq=False, repr=False)
class Guard:
    """Hands on requests that may pass. `refused` counts the others; `hold` keeps one while it is checked."""

    _gate: Gate
    _hand_on: Callable[[Connection, list[Command]], None]
    _now: Callable[[], int]
    _hold: Hold

    def __post_init__(self) -> None:
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
            checked = refusal(command, peer, now)
            if checked is None:
                passed.append(command)
            elif isinstance(checked, str):
                self._refuse(connection, command, checked, now)
            else:
                self._check_beside(connection, command, checked, now)
        if passed:
            self._hand_on(connection, passed)

    def _refuse(self, connection: Connection, command: Command, remark: str, now: int) -> None:
        self._log(command, connection.peer, remark, now)
        _answer(connection, command, ResponseCode.NO_PERMISSION, remark)

    def _check_beside(self, connection: Connection, command: Command, checking: Checking, now: int) -> None:
        changes = self._gate.changes

        def ended(outcome: Outcome) -> None:
            if isinstance(outcome.error, Refused):
                _answer(connection, command, outcome.error.code, outcome.error.remark)
            elif outcome.error is not None:
                log.error("request %d could not be checked", command.code, exc_info=outcome.error)
                _answer(connection, command, ResponseCode.SYSTEM_ERROR, "the request could not be checked")
            elif outcome.timed_out:
                _answer(connection, command, ResponseCode.SYSTEM_BUSY, "the request took too long")
            elif self._gate.changes != changes:
                self.on_requests(connection, [command])  # what was decided may be outdated
            elif outcome.value is not None:
                self._refuse(connection, command, str(outcome.value), self._now())
            else:
                self._hand_on(connection, [command])

        wait = Wait((OffLoop(checking, holds_body=True),), now + OFF_LOOP_TIMEOUT_MS, _none)
        self._hold(connection.peer.connection_id, wait, ended)

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
            log.warning("refused %s of %s: %s", name, peer.address, _cut(remark))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LOGGED_CHARACTERS else text[:MAX_LOGGED_CHARACTERS] + "..."


def _answer(connection: Connection, command: Command, code: int, remark: str) -> None:
    if not command.flag & 2:
        connection.send(Command(code, command.opaque, FLAG_RESPONSE, None, None, remark))


def _none(outcome: Outcome, now: int) -> None:
    """The guard itself says what follows."""
