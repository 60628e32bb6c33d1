"""The gate in front of every request: is the sender who it says it is, and may it do what it asks for.

Asked by the server before a request reaches its handler, and only on brokers where one of the two checks is
on. A refused request is answered with NO_PERMISSION and Apache's words.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Generator
from typing import cast

from orbitmq.broker.auth.admission_cy import Grant, admitted_bytes
from orbitmq.broker.auth.config_values import unauthenticated_codes, unauthorized_codes
from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.auth.permissions import NEEDS, Need
from orbitmq.broker.auth.policies import Access, Decision, Rules, UserStatus, UserType
from orbitmq.broker.auth.table import AuthTable
from orbitmq.handling.call import READ_ON_LOOP_BYTES, Peer
from orbitmq.protocol.bodies.auth import User
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import ACCESS_KEY, SigningKey, is_signed_with
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.protocol.schema.declare import REQUESTS

FAST_REQUESTS = (SendMessageV2, SendBatchMessage, EndTransaction, PullMessage, PopMessage, AckMessage)
"""Requests that are handled as frames; see `Broker.bind`."""
MAX_DECISIONS = 10_000
"""Decisions remembered before all of them are forgotten."""
DECISIONS_PER_STEP = 200
"""Resources of one request that are checked in one step, which takes about a millisecond."""
MAX_REMEMBERED_CHARACTERS = 1000
"""Decisions about longer names are not remembered: a sender shall not fill our memory with them."""


class Gate:
    """Checks requests. `cluster` is the name under which rules speak of this broker's cluster."""

    def __init__(self, settings: AuthSettings, table: AuthTable, cluster: str) -> None:
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
        self.once = self._authenticates and self._once
        self.fields = {
            kind.CODE: tuple(name.encode() for name in NEEDS[kind.CODE].fields)
            for kind in FAST_REQUESTS
            if kind.CODE in NEEDS
        }
        """Fields by request code; a request that lacks one of them gets no grant."""
        self.granted: dict[bytes, Grant] = {}
        self.memory = bytearray(4096)
        self._changes = table.changes

    def _forget_outdated(self) -> None:
        """A decision holds until a user or a rule changes."""
        if self._changes != self._table.changes:
            self._changes = self._table.changes
            self._decisions.clear()
            self._known.clear()
            self.granted.clear()

    def admitted_bytes(self, data: bytes, peer: Peer, now: int) -> int:
        """Number of bytes at the start of a read that are frames of requests that `refusal` would let in.

        There may be more such frames: what is in any way unusual ends it.
        """
        self._forget_outdated()
        return admitted_bytes(data, self, peer, now)

    def grant(self, key: bytes, code: int, user: str, names: list[str], peer: Peer) -> Grant | None:
        """The grants of a user at an address, kept under `key`; None if there are none."""
        given = (name.decode() for name in self.fields[code])
        command = Command(code, ext={ACCESS_KEY: user, **dict(zip(given, names, strict=True))})
        signing_key = None
        if self._authenticates and code not in self._free:
            known = self._table.user(user)
            if known is None or known.user_status == UserStatus.DISABLE:
                return None
            if not self._once:
                signing_key = SigningKey(known.password or "")
        if (
            self._authorizes
            and code not in self._allowed
            and self._authorize(command, user, peer) is not None
        ):
            return None
        if len(self.granted) >= MAX_DECISIONS:
            self.granted.clear()
        grant = self.granted[key] = Grant(user, signing_key)
        return grant

    def is_authenticated(self, user: str, peer: Peer, now: int) -> bool:
        """True if an earlier signature of a user counts for its connection, by the stateful strategy."""
        until, wrong = self._known.get((peer.connection_id, user), (0, None))
        return now < until and wrong is None

    def refusal(
        self, command: Command, peer: Peer, now: int
    ) -> str | Generator[None, None, str | None] | None:
        """The reason why a request may not be served, or None.

        For a long body it returns a generator that finds the reason, to be run in a thread, step by step. Its
        result counts only if `changes` is the same afterwards.
        """
        self._forget_outdated()
        name = (command.ext or {}).get(ACCESS_KEY)
        if self._authenticates and command.code not in self._free:
            wrong = self._authenticate_once(command, name, peer, now) if self._once else None
            if not self._once:
                wrong = self._authenticate(command, name)
            if wrong is not None:
                return wrong
        if self._authorizes and command.code not in self._allowed:
            need = NEEDS.get(command.code)
            is_long = len(command.body or b"") > READ_ON_LOOP_BYTES
            if is_long and need is not None and need.body is not None and not self._is_super(name):
                return self._deciding(name, need, command, peer.host[:-4])
            return self._authorize(command, name, peer)
        return None

    @property
    def changes(self) -> int:
        """Number of changes of users and rules."""
        return self._table.changes

    def withdrawal(self, command: Command, peer: Peer) -> str | None:
        """The reason why a request that was admitted would be refused by now, or None."""
        self._forget_outdated()
        name = (command.ext or {}).get(ACCESS_KEY)
        if self._authenticates and command.code not in self._free:
            user = self._table.user(name or "")
            if self._once and user is not None and user.user_status != UserStatus.DISABLE:
                wrong = None  # its signature was another request's
            else:
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
            return None  # it is not served
        if self._is_super(name):
            return None
        if need is None:
            return f"only super users may send request {command.code}."
        host = peer.host[:-4]
        if need.body is not None:
            return self._decide(name, need, command, host)
        fields = command.ext or {}
        texts = (name, *map(fields.get, need.fields))
        key = (command.code, host, texts)
        try:
            return self._decisions[key]
        except KeyError:
            pass
        decision = self._decide(name, need, command, host)
        if sum(len(text) for text in texts if text) <= MAX_REMEMBERED_CHARACTERS:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _is_super(self, name: str | None) -> bool:
        user = self._table.user(name) if name else None
        return user is not None and user.user_status == UserStatus.ENABLE and user.user_type == UserType.SUPER

    def allows(self, name: str | None, access: Access, host: bytes) -> bool:
        """True if a user's present status and rules allow an access."""
        if not self._authorizes:
            return True
        user = self._table.user(name or "")
        if user is None or user.user_status == UserStatus.DISABLE:
            return False
        if user.user_type == UserType.SUPER:
            return True
        return _refusal_by_rules(name or "", self._table.rules(name or ""), access, host[:-4]) is None

    def _decide(self, name: str | None, need: Need, command: Command, host: bytes) -> str | None:
        deciding = self._deciding(name, need, command, host)
        while True:
            try:
                next(deciding)
            except StopIteration as decided:
                return cast("str | None", decided.value)

    def _deciding(
        self, name: str | None, need: Need, command: Command, host: bytes
    ) -> Generator[None, None, str | None]:
        """The steps of a decision, over the user and its rules as they are at the call."""
        user = self._table.user(name) if name else None
        rules = None if user is None else self._table.rules(name or "")
        return _steps(name, user, rules, need, command, self._cluster, host)


def _steps(
    name: str | None,
    user: User | None,
    rules: Rules | None,
    need: Need,
    command: Command,
    cluster: str,
    host: bytes,
) -> Generator[None, None, str | None]:
    try:
        wanted = need.accesses(command, cluster)
    except Refused:
        return "parse authorization context error."
    if not wanted:
        return None
    if not name:
        return "Authorization failed. Please verify your access rights and try again."
    if user is None or rules is None:
        return f"User:{name} not found."
    if user.user_status == UserStatus.DISABLE:
        return f"User:{name} is disabled."
    for number, access in enumerate(wanted, 1):
        wrong = _refusal_by_rules(name, rules, access, host)
        if wrong is not None:
            return wrong
        if number % DECISIONS_PER_STEP == 0:
            yield
    return None


def _refusal_by_rules(name: str, rules: Rules, access: Access, host: bytes) -> str | None:
    source = ipaddress.ip_address(host) if host else None
    decision = rules.decide(access, source)
    if decision is Decision.ALLOW:
        return None
    why = "no matched policies." if decision is None else "the decision is deny."
    return f"User:{name} has no permission to access {access} from {source}, {why}"


def guard(settings: AuthSettings, table: AuthTable, cluster: str) -> Gate | None:
    """The gate that every request has to pass; None if access is not controlled."""
    if not (settings.authentication_enabled or settings.authorization_enabled):
        return None
    return Gate(settings, table, cluster)
