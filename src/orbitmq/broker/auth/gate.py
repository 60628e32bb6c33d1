"""The gate in front of every request: is the sender who it says it is, and may it do what it asks for.

Asked by the server before a request reaches its handler, and only on brokers where one of the two checks is
on. What is refused is answered with NO_PERMISSION and Apache's words.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol

from orbitmq.broker.auth.needs import NEEDS, Need
from orbitmq.broker.auth.policies import Access, Decision, UserStatus, UserType
from orbitmq.broker.auth.reading import AuthTexts, unauthenticated_codes, unauthorized_codes
from orbitmq.broker.auth.table import AuthTable
from orbitmq.protocol.bodies.auth import User
from orbitmq.protocol.call import Peer
from orbitmq.protocol.command import Command
from orbitmq.protocol.declare import REQUESTS
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.signing import ACCESS_KEY, is_signed_with

MAX_DECISIONS = 10_000
"""Decisions remembered before all of them are forgotten."""
MAX_REMEMBERED_CHARACTERS = 1000
"""Decisions about longer names are not remembered: a sender shall not fill our memory with them."""


class GateSettings(AuthTexts, Protocol):
    """What the broker's options say about access."""

    @property
    def authentication_enabled(self) -> bool: ...
    @property
    def authorization_enabled(self) -> bool: ...
    @property
    def authentication_strategy(self) -> str | None: ...
    @property
    def stateful_authentication_cache_max_num(self) -> int: ...
    @property
    def stateful_authentication_cache_expired_second(self) -> int: ...


class Gate:
    """Checks requests. `cluster` is the name under which rules speak of this broker's cluster."""

    def __init__(self, settings: GateSettings, table: AuthTable, cluster: str) -> None:
        self._authenticates = settings.authentication_enabled
        self._authorizes = settings.authorization_enabled
        self._table = table
        self._cluster = cluster
        self._free = unauthenticated_codes(settings)
        self._allowed = unauthorized_codes(settings)
        self._once = (settings.authentication_strategy or "").endswith(".StatefulAuthenticationStrategy")
        self._known_max = settings.stateful_authentication_cache_max_num
        self._known_ms = settings.stateful_authentication_cache_expired_second * 1000
        self._known: dict[tuple[int, str], tuple[int, str | None]] = {}
        self._decisions: dict[tuple[int, bytes, tuple[str | None, ...]], str | None] = {}
        """By request code, address, and user, topics and groups that the request names."""
        self._changes = table.changes

    def refusal(self, command: Command, peer: Peer, now: int) -> str | None:
        """Why a request may not be served, or None."""
        if self._changes != self._table.changes:
            self._changes = self._table.changes
            self._decisions.clear()
            self._known.clear()
        name = (command.ext or {}).get(ACCESS_KEY)
        if self._authenticates and command.code not in self._free:
            wrong = self._authenticate_once(command, name, peer, now) if self._once else None
            if not self._once:
                wrong = self._authenticate(command, name)
            if wrong is not None:
                return wrong
        if self._authorizes and command.code not in self._allowed:
            return self._authorize(command, name, peer)
        return None

    def _authenticate(self, command: Command, name: str | None) -> str | None:
        if not name:
            return "username cannot be null."
        user = self._table.user(name)
        if user is None:
            return f"User:{name} is not found."
        if user.user_status == UserStatus.DISABLE:
            return f"User:{name} is disabled."
        if not is_signed_with(user.password or "", command):
            return "check signature failed."
        return None

    def _authenticate_once(self, command: Command, name: str | None, peer: Peer, now: int) -> str | None:
        """The answer to a connection's first request of a user counts for the rest, for a while."""
        key = (peer.connection_id, name or "")
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        wrong = self._authenticate(command, name)
        if len(key[1]) > MAX_REMEMBERED_CHARACTERS:
            return wrong
        if len(self._known) >= self._known_max:
            self._known.clear()
        self._known[key] = (now + self._known_ms, wrong)
        return wrong

    def _authorize(self, command: Command, name: str | None, peer: Peer) -> str | None:
        need = NEEDS.get(command.code)
        if need is None and command.code not in REQUESTS:
            return None  # nobody serves it
        user = self._table.user(name) if name else None
        if user is not None and user.user_status == UserStatus.ENABLE and user.user_type == UserType.SUPER:
            return None
        if need is None:
            return f"only super users may send request {command.code}."
        host = peer.host[:-4]
        if need.body is not None:
            return self._decide(name, user, need, command, host)
        fields = command.ext or {}
        texts = (name, *map(fields.get, need.topics), *map(fields.get, need.groups))
        key = (command.code, host, texts)
        try:
            return self._decisions[key]
        except KeyError:
            pass
        decision = self._decide(name, user, need, command, host)
        if sum(len(text) for text in texts if text) <= MAX_REMEMBERED_CHARACTERS:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def refusal_of(self, name: str | None, access: Access, host: bytes) -> str | None:
        """Why a user who was let in may not do one thing more, or None."""
        if not self._authorizes or self._table.is_super(name or ""):
            return None
        return self._ask_rules(name or "", access, host)

    def _decide(
        self, name: str | None, user: User | None, need: Need, command: Command, host: bytes
    ) -> str | None:
        try:
            wanted = need.accesses(command, self._cluster)
        except Refused:
            return "parse authorization context error."
        if not wanted:
            return None
        if not name:
            return "Authorization failed. Please verify your access rights and try again."
        if user is None:
            return f"User:{name} not found."
        if user.user_status == UserStatus.DISABLE:
            return f"User:{name} is disabled."
        for access in wanted:
            wrong = self._ask_rules(name, access, host)
            if wrong is not None:
                return wrong
        return None

    def _ask_rules(self, name: str, access: Access, host: bytes) -> str | None:
        source = ipaddress.ip_address(host) if host else None
        decision = self._table.rules(name).decide(access, source)
        if decision is Decision.ALLOW:
            return None
        why = "no matched policies." if decision is None else "the decision is deny."
        return f"User:{name} has no permission to access {access} from {source}, {why}"


def guard(settings: GateSettings, table: AuthTable, cluster: str) -> Gate | None:
    """What every request has to pass; None where everything is let in."""
    if not (settings.authentication_enabled or settings.authorization_enabled):
        return None
    return Gate(settings, table, cluster)
