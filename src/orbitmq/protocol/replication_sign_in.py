"""The sign-in on the HA port, with haAuthenticationEnable: both sides prove that they know a user's secret.

The master speaks first, with a challenge; the slave answers with a claim, the master with a verdict, and the
stream of reports and pieces follows. Apache's brokers know nothing of it: read as theirs, each of these
messages is a negative physical offset with more bytes than their slaves have room for, so none takes it for
a piece of the log.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

from orbitmq.protocol.replication import BadStream

OPENING = b"\xffORBITHA" + b"\x7f\xff\xff\x01"
"""The first bytes of each message."""
NONCE_BYTES = 32
PROOF_BYTES = 32
MAX_NAME_BYTES = 255
MAX_TEXT_BYTES = 1_000
_ACCEPTED, _REFUSED = b"\x01", b"\x00"


def is_sign_in(data: bytes) -> bool:
    """True if bytes are, or may become, a message of a sign-in."""
    return bool(data) and OPENING.startswith(data[: len(OPENING)])


class Claim(NamedTuple):
    """A slave's answer to a challenge."""

    access_key: str
    nonce: bytes
    proof: bytes


class Verdict(NamedTuple):
    """A master's answer to a claim: its own proof, or a refusal's reason."""

    proof: bytes | None
    reason: str = ""


def proof(secret: str, side: str, access_key: str, masters_nonce: bytes, slaves_nonce: bytes) -> bytes:
    """The proof of one side, `master` or `slave`, that it knows the secret of a user."""
    said = b"\0".join((b"orbitmq HA", side.encode(), access_key.encode("utf-8", "surrogateescape")))
    return hmac.digest(secret.encode(), said + b"\0" + masters_nonce + slaves_nonce, "sha256")


def encode_challenge(nonce: bytes) -> bytes:
    """The master's first message."""
    return OPENING + nonce


def encode_claim(claim: Claim) -> bytes:
    """The slave's message. Raises ValueError for a user's name that is too long."""
    name = claim.access_key.encode("utf-8", "surrogateescape")
    if len(name) > MAX_NAME_BYTES:
        raise ValueError(f"an access key of {len(name)} bytes, the limit is {MAX_NAME_BYTES}")
    return b"".join((OPENING, claim.nonce, claim.proof, bytes((len(name),)), name))


def encode_verdict(verdict: Verdict) -> bytes:
    """The master's second message."""
    if verdict.proof is not None:
        return OPENING + _ACCEPTED + verdict.proof
    text = verdict.reason.encode("utf-8", "surrogateescape")[:MAX_TEXT_BYTES]
    return b"".join((OPENING, _REFUSED, len(text).to_bytes(2, "big"), text))


class SignInReader:
    """Messages of a sign-in out of bytes cut anywhere. Keeps less than the longest of them."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> None:
        """Takes bytes. Raises BadStream where they are no message of a sign-in."""
        self._buffer += data
        if not is_sign_in(self._buffer):
            raise BadStream("these bytes are no sign-in")

    def take_rest(self) -> bytes:
        """The bytes behind the messages that were taken."""
        rest, self._buffer = self._buffer, b""
        return rest

    def _take_content(self, size: int) -> bytes | None:
        """The content of a message of so many bytes behind its opening; None where it is not whole."""
        whole = len(OPENING) + size
        if len(self._buffer) < whole:
            return None
        content, self._buffer = self._buffer[len(OPENING) : whole], self._buffer[whole:]
        return content

    def _at(self, place: int, size: int) -> int | None:
        """A number within the message that begins here; None where it has not come."""
        end = len(OPENING) + place + size
        return int.from_bytes(self._buffer[end - size : end], "big") if len(self._buffer) >= end else None

    def challenge(self) -> bytes | None:
        """The master's nonce; None where the message is not whole."""
        return self._take_content(NONCE_BYTES)

    def claim(self) -> Claim | None:
        """The slave's claim; None where the message is not whole."""
        fixed = NONCE_BYTES + PROOF_BYTES
        length = self._at(fixed, 1)
        content = None if length is None else self._take_content(fixed + 1 + length)
        if content is None:
            return None
        name = content[fixed + 1 :].decode("utf-8", "surrogateescape")
        return Claim(name, content[:NONCE_BYTES], content[NONCE_BYTES:fixed])

    def verdict(self) -> Verdict | None:
        """The master's verdict; None where the message is not whole. Raises BadStream."""
        kind = self._at(0, 1)
        if kind is None:
            return None
        if kind:
            content = self._take_content(1 + PROOF_BYTES)
            return None if content is None else Verdict(content[1:])
        length = self._at(1, 2)
        if length is None:
            return None
        if length > MAX_TEXT_BYTES:
            raise BadStream(f"a reason of {length} bytes: no master of a broker group answers there")
        content = self._take_content(3 + length)
        return None if content is None else Verdict(None, content[3:].decode("utf-8", "replace"))
