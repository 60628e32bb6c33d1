"""Peers that may follow a log, and masters that a slave follows, with haAuthenticationEnable: see
`protocol.replication_sign_in` for the messages.

Nonces are given, for rules have no chance of their own. A proof is good for one connection: both nonces are
in it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from orbitmq.broker.auth.policies import UserStatus, UserType
from orbitmq.broker.auth.table import AuthTable
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.replication import BadStream
from orbitmq.protocol.replication_sign_in import (
    Claim,
    SignInReader,
    Verdict,
    encode_challenge,
    encode_claim,
    encode_verdict,
    proof,
)

REFUSED = (
    "no enabled super user has this name and secret here: give all brokers of the group the same "
    "innerClientAuthenticationCredentials"
)


class SignInRefused(BadStream):
    """A peer has not proved that it is a broker of this group. `answer` goes to it first."""

    def __init__(self, why: str, answer: bytes = b"") -> None:
        super().__init__(why)
        self.answer = answer


def secret_of_broker(auth: AuthTable, name: str) -> str | None:
    """The secret by which brokers sign in as this user; None where none may."""
    user = auth.user(name)
    if user is None or user.user_type != UserType.SUPER or user.user_status != UserStatus.ENABLE:
        return None
    return user.password or None


class MasterSignIn:
    """A master's side of one connection."""

    def __init__(self, secret_of: Callable[[str], str | None], nonce: bytes) -> None:
        self._secret_of = secret_of
        self._nonce = nonce
        self._reader = SignInReader()
        self.challenge = encode_challenge(nonce)
        """To be sent first."""

    def feed(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Takes bytes of the slave; gives the answer and what is behind the claim, None before it is whole.

        Raises SignInRefused.
        """
        try:
            self._reader.feed(data)
        except BadStream:
            raise SignInRefused(
                "it has not signed in, as haAuthenticationEnable asks for: a slave of another version, of "
                "Apache's or without haAuthenticationEnable, or a stranger"
            ) from None
        claim = self._reader.claim()
        if claim is None:
            return None
        name, nonce, given = claim
        secret = self._secret_of(name)
        wanted = proof(secret or "", "slave", name, self._nonce, nonce)
        if not hmac.compare_digest(wanted, given) or secret is None:
            known = (
                "its secret is wrong" if secret is not None else "no enabled super user of this name is here"
            )
            raise SignInRefused(
                f"it signs in as {name!r}, and {known}: give all brokers of the group the same "
                "innerClientAuthenticationCredentials",
                encode_verdict(Verdict(None, REFUSED)),
            )
        mine = proof(secret, "master", name, self._nonce, nonce)
        return encode_verdict(Verdict(mine)), self._reader.take_rest()


class SlaveSignIn:
    """A slave's side of one connection."""

    def __init__(self, master: str, credentials: Credentials, nonce: bytes) -> None:
        self._master = master
        self._credentials = credentials
        self._nonce = nonce
        self._reader = SignInReader()
        self._masters_nonce: bytes | None = None

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Takes bytes of the master; gives the answer, and what is behind its verdict, None before it.

        Raises SignInRefused.
        """
        try:
            self._reader.feed(data)
        except BadStream:
            raise SignInRefused(
                f"the master {self._master} does not ask for credentials: set haAuthenticationEnable=true "
                "there, or false here"
            ) from None
        name, secret = self._credentials.access_key, self._credentials.secret_key
        answer = b""
        if self._masters_nonce is None:
            nonce = self._reader.challenge()
            if nonce is None:
                return answer, None
            self._masters_nonce = nonce
            mine = proof(secret, "slave", name, nonce, self._nonce)
            try:
                answer = encode_claim(Claim(name, self._nonce, mine))
            except ValueError as error:
                raise SignInRefused(f"cannot sign in at {self._master}: {error}") from None
        verdict = self._reader.verdict()
        if verdict is None:
            return answer, None
        if verdict.proof is None:
            raise SignInRefused(
                f"the master {self._master} refuses the credentials of {name!r}: {verdict.reason}"
            )
        wanted = proof(secret, "master", name, self._masters_nonce, self._nonce)
        if not hmac.compare_digest(wanted, verdict.proof):
            raise SignInRefused(
                f"{self._master} does not know the secret of {name!r}: it is no master of this group"
            )
        return answer, self._reader.take_rest()
