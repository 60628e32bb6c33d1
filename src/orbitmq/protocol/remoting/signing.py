"""Signatures of requests, the same for access control 1.0 and 2.0.

A signature is the base64 text of HMAC-SHA1, keyed with the secret, over the values of all header fields in
the order of their names, `Signature` left out, and the body behind them.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.protocol.remoting.command import Command

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
V4_9_3 = 399
"""Up to this version clients added `_UNIQUE_KEY_QUERY` behind the signing."""


@dataclass(slots=True, frozen=True)
class Credentials:
    """Keys that a client signs with. The secret and the token are in no printed form."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError for an empty key."""
        if not self.access_key.strip() or not self.secret_key:
            raise ValueError("an access key and a secret key are needed, none of them empty")

    def sign(self, command: Command) -> None:
        """Adds who sends a request, and its signature. Nothing may change in it afterwards."""
        fields = {} if command.ext is None else command.ext
        fields[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            fields[SECURITY_TOKEN] = self.security_token
        command.ext = fields
        fields[SIGNATURE] = signature(self.secret_key, fields, command.body)


def signature(secret: str, fields: Mapping[str, str], body: bytes | memoryview | None) -> str:
    """The `Signature` of a request with these header fields and this body."""
    text = "".join([fields[name] for name in sorted(fields) if name != SIGNATURE]).encode("utf-8", "replace")
    digest = hmac.digest(secret.encode(), text if body is None else b"".join((text, body)), "sha1")
    return b64encode(digest).decode()


def is_signed_with(secret: str, command: Command) -> bool:
    """True if a request's signature is right; takes the same time wherever a wrong one differs."""
    fields = command.ext or {}
    given = fields.get(SIGNATURE)
    if given is None:
        return False
    if command.version <= V4_9_3 and UNIQUE_KEY_QUERY in fields:
        fields = {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
    wanted = signature(secret, fields, command.body)
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))


class SigningKey:
    """A secret that many signatures are made with: the two states of HMAC-SHA1 that depend on nothing else.

    A signature is the digest of a copy of `outer`, fed with the digest of a copy of `inner`, fed with what is
    signed.
    """

    __slots__ = ("inner", "outer")

    def __init__(self, secret: str) -> None:
        key = secret.encode()
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha1(key).digest()
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self.inner = hashlib.sha1(key.translate(hmac.trans_36))
        self.outer = hashlib.sha1(key.translate(hmac.trans_5C))


_BLOCK_BYTES = 64
