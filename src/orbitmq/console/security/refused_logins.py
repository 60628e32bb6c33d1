"""Logins that were refused, counted together, in a file of their own: anybody can cause them, without end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

TOGETHER_SECONDS = 60.0
"""Refusals of one address for one reason are one entry in so much time."""
MOST_ENTRIES = 100
"""Entries of that time; the refusals of further addresses are counted in one that has none."""
MOST_USERS = 5
"""Names that an entry lists."""
MAX_ERROR = 300
"""Characters of a reason."""
MAX_FILE_BYTES = 1 << 20
"""A longer file becomes `….1`, in the place of the one before."""
SHOWN = 100


class RefusedLogin(msgspec.Struct, rename="camel", omit_defaults=True):
    """Refusals of one address for one reason."""

    at_ms: int
    """The first, ms since 1970."""
    last_ms: int
    address: str
    """Empty: of several addresses."""
    action: str
    outcome: str
    """The code of the error."""
    count: int
    users: list[str] = []
    """The first names that were tried."""
    error: str | None = None
    """The reason in words."""


class RefusedLogins:
    """Counts refusals and appends them to a file, readable by its owner alone, once their time is over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._current: dict[tuple[str, str, str, str | None], RefusedLogin] = {}
        self._recent: deque[RefusedLogin] = deque(maxlen=SHOWN)
        self._timer: asyncio.TimerHandle | None = None

    def count(
        self, now_ms: int, address: str, user: str, action: str, outcome: str, error: str | None
    ) -> None:
        """Counts one refusal. Needs a running event loop."""
        error = error and error[:MAX_ERROR]
        key: tuple[str, str, str, str | None] = (address, action, outcome, error)
        if key not in self._current and len(self._current) >= MOST_ENTRIES:
            key = ("", action, outcome, None)
        entry = self._current.get(key)
        if entry is None:
            log.warning("login refused: %s from %s (user %s)", outcome, address or "?", user or "?")
            entry = RefusedLogin(now_ms, now_ms, key[0], action, outcome, 0, [], key[3])
            self._current[key] = entry
            self._recent.append(entry)
        entry.count += 1
        entry.last_ms = now_ms
        if user and user not in entry.users and len(entry.users) < MOST_USERS:
            entry.users.append(user)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self.write)

    def write(self) -> None:
        """Appends what was counted, and begins anew. A file that cannot be written is an error in the log."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        entries, self._current = list(self._current.values()), {}
        if not entries:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(handle, b"".join(msgspec.json.encode(one) + b"\n" for one in entries))
                size = os.fstat(handle).st_size
            finally:
                os.close(handle)
            if size > MAX_FILE_BYTES:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
        except OSError as error:
            log.error("refused logins cannot be written to %s: %s", self._path, error)

    def recent(self) -> list[RefusedLogin]:
        """The last entries since the start, newest first."""
        return list(reversed(self._recent))
