"""Users' secrets, sealed where they are stored: Fernet of the package `cryptography`, its key in a file.

Signatures are checked with the secrets themselves, so they have to be opened again and cannot be hashes.
If the package is not installed they are stored as they are, and secrets sealed before are refused.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.extras import install
from orbitmq.protocol.errors import OrbitError
from orbitmq.store.config_files import write_text
from orbitmq.store.files import RealDisk

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

SEALED = "sealed-fernet:"
"""Beginning of a sealed secret in the file. No secret in clear may: it could not be distinguished from one.
"""

_KEY = re.compile(rb"[A-Za-z0-9_-]{43}=")


class Unsealable(OrbitError):
    """Secrets cannot be opened, or their key is none; one line that names both files and says what to do."""


class Sealing:
    """Seals the secrets of one table. The key is read when it is first needed, and made if there is none."""

    def __init__(self, table: Path, key: Path) -> None:
        self.table = table
        self.key = key
        self._fernet: Fernet | None = None

    def prepare(self) -> bool:
        """Has the key ready, a new one if need be; False where `cryptography` is not installed.

        Call once the table was read: a new key opens nothing that was sealed before. Raises Unsealable.
        """
        try:
            from cryptography.fernet import Fernet
        except ImportError:
            return False
        if self._fernet is None:
            try:
                key = self._read() or self._make()
            except OSError as error:
                raise Unsealable(
                    f"{self.key}, the key to the secrets in {self.table}, cannot be read or made: "
                    f"{error.strerror}; make it a file this user may read, in a folder that is there"
                ) from None
            self._fernet = Fernet(key)
        return True

    def seal(self, secret: str) -> str:
        """A secret as it is stored. Raises OSError, as the write that it is for does."""
        try:
            self.prepare()
        except Unsealable as error:
            raise OSError(str(error)) from None
        if self._fernet is None:
            return secret
        return SEALED + self._fernet.encrypt(secret.encode("utf-8", "surrogatepass")).decode()

    def open(self, stored: str) -> str:
        """The secret that was stored, sealed or in clear. Raises Unsealable."""
        if not stored.startswith(SEALED):
            return stored
        try:
            from cryptography.fernet import InvalidToken
        except ImportError:
            raise Unsealable(
                f"secrets in {self.table} are sealed with the key in {self.key}, and what opens them, "
                f"the package cryptography, is not there: {install('auth')}"
            ) from None
        if self._fernet is None and not os.path.lexists(self.key):
            raise Unsealable(
                f"secrets in {self.table} are sealed and their key {self.key} is missing; "
                "put it back, or name its place as authKeyPath"
            )
        self.prepare()
        assert self._fernet is not None
        try:
            return self._fernet.decrypt(stored[len(SEALED) :]).decode("utf-8", "surrogatepass")
        except (InvalidToken, ValueError):
            raise Unsealable(
                f"secrets in {self.table} cannot be opened with the key in {self.key}: it is another key, "
                "or one of the two files is damaged; put back those that belong together"
            ) from None

    def _read(self) -> bytes | None:
        """The key, None if there is no file. Raises Unsealable for anything else, and OSError."""
        try:
            key = RealDisk().content(self.key).strip()
        except FileNotFoundError:
            return None
        if not _KEY.fullmatch(key):
            raise Unsealable(
                f"{self.key} holds no key to the secrets in {self.table}: it is empty or damaged; "
                "put the right one back, or remove it if nothing was sealed with it yet"
            )
        return key

    def _make(self) -> bytes:
        """A new key, on the disk before anything is sealed with it. Raises OSError."""
        from cryptography.fernet import Fernet

        self.key.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.key.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # Some network file systems cannot.
                # Brokers that share a key may start at once, shards do: the first one makes it.
                fcntl.flock(folder, fcntl.LOCK_EX)
            key = self._read()
            if key is None:
                key = Fernet.generate_key()
                write_text(self.key, key.decode() + "\n", 0o600)
            return key
        finally:
            os.close(folder)
