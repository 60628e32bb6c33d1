"""Passwords as scrypt hashes: `scrypt$N$r$p$salt$key`, the last two in base64."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
"""16 MiB and about 50 ms for one hash."""
MAX_COST = 1 << 17
MAX_PASSWORD_CHARS = 256
SHORTEST = 10
"""Characters that a password needs."""


class WeakPassword(ValueError):
    """A password that is not taken; the message says why."""


def hash_password(password: str) -> str:
    """A password to store. Raises WeakPassword."""
    if not SHORTEST <= len(password) <= MAX_PASSWORD_CHARS:
        raise WeakPassword(
            f"a password has {SHORTEST} to {MAX_PASSWORD_CHARS} characters, not {len(password)}"
        )
    return hash_secret(password)


def hash_secret(secret: str) -> str:
    """A secret of any length to store."""
    salt = os.urandom(16)
    key = _derive(secret, salt, COST, BLOCK, PARALLEL)
    return "$".join(
        [
            "scrypt",
            str(COST),
            str(BLOCK),
            str(PARALLEL),
            *(base64.b64encode(part).decode() for part in (salt, key)),
        ]
    )


def is_password(password: str, stored: str) -> bool:
    """True if `stored` is the hash of a password. Raises ValueError where it is no hash."""
    kind, cost, block, parallel, salt, key = stored.split("$")
    if kind != "scrypt" or not 1 < int(cost) <= MAX_COST or int(block) > 16 or int(parallel) > 4:
        raise ValueError("not a scrypt hash of this console")
    if len(password) > MAX_PASSWORD_CHARS:
        return False
    derived = _derive(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(derived, base64.b64decode(key))


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=256 * cost * block, dklen=32
    )
