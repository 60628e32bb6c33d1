"""Logs: to standard error, as text for people or as one JSON object per line for collectors."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_SYSLOG_PRIORITY = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


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
        return json.dumps(entry, ensure_ascii=False)


class JournalFormatter(logging.Formatter):
    """Every line with its priority, as journald reads it; journald knows the time itself."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_SYSLOG_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines())


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
        formatter = logging.Formatter(f"%(asctime)s %(levelname)-7s {name}: %(message)s")
        formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
