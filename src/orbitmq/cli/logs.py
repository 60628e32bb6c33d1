"""Logs: to standard error, as text for people or as one JSON object per line for collectors."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any, TextIO

from orbitmq.terminal import escaped, escaped_json

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_SYSLOG_PRIORITY = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class LineFormatter(logging.Formatter):
    """One line for an entry. Those of its exception are indented: none of them can pass for an entry."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 (the name is logging's)
        return "\n".join(f"  {escaped(line)}" for line in super().formatException(ei).split("\n"))


def escape_unconfigured() -> None:
    """Has commands that set up no logs escape what Python writes for them: warnings and errors, bare."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter("%(message)s"))


class JsonFormatter(logging.Formatter):
    """time (ISO 8601, UTC), level, logger, message, and exception where there is one.

    `broker` stands in every entry where several processes write to one stream.
    """

    def __init__(self, broker: str = "") -> None:
        super().__init__()
        self._origin = {"broker": broker} if broker else {}

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            **self._origin,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(entry, ensure_ascii=False))


class JournalFormatter(LineFormatter):
    """Every line with its priority, as journald reads it; journald knows the time itself."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_SYSLOG_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).split("\n"))


def under_journald(stream: TextIO) -> bool:
    """True if `stream` goes to systemd's journal, whose file JOURNAL_STREAM names."""
    try:
        device, _, inode = os.environ["JOURNAL_STREAM"].partition(":")
        status = os.fstat(stream.fileno())
        return (int(device), int(inode)) == (status.st_dev, status.st_ino)
    except (KeyError, ValueError, OSError):
        return False


def set_up(level: str, form: str, stream: TextIO | None = None, *, origin: str = "") -> None:
    """Sends all logs of this process to `stream`, standard error if none is given.

    `origin` stands in every line: the broker, where several write to one stream.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    formatter: logging.Formatter
    name = f"{origin.replace('%', '%%')} %(name)s" if origin else "%(name)s"
    if form == "json":
        formatter = JsonFormatter(origin)
    elif under_journald(stream):
        formatter = JournalFormatter(f"{name}: %(message)s")
    else:
        formatter = LineFormatter(f"%(asctime)s %(levelname)-7s {name}: %(message)s")
        formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
