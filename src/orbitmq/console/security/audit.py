"""The audit log: every change with its user, time and outcome, as one JSON object per line."""

from __future__ import annotations

import logging
import os
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

log = logging.getLogger(__name__)

SHOWN = 500
"""Entries that a page can show; the file has all."""


class AuditEntry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One change, or one that was refused."""

    at_ms: int
    """When, ms since 1970."""
    user: str
    address: str
    """Address that the request came from."""
    action: str
    target: str
    outcome: str
    """`done`, or the code of the error."""
    before: Any = None
    after: Any = None
    error: str | None = None


class AuditLog:
    """Appends to a file, made with the first entry and readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recent: deque[AuditEntry] = deque(maxlen=SHOWN)

    def write(self, entry: AuditEntry) -> None:
        """Keeps an entry. A file that cannot be written does not undo the change: it is logged."""
        self._recent.append(entry)
        line = msgspec.json.encode(entry) + b"\n"
        log.info("%s by %s: %s %s", entry.outcome, entry.user, entry.action, entry.target)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self._path, error)

    def recent(self) -> list[AuditEntry]:
        """The last entries since the start, newest first."""
        return list(reversed(self._recent))
