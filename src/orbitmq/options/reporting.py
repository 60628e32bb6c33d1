"""Options of a server's reports on itself: its health, and its logs."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from orbitmq.options.declare import Settings, option
from orbitmq.options.errors import InvalidValue

ROOT = ""
"""The name of the logger above all."""
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LOGGER_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)


@dataclass(kw_only=True)
class ReportingSettings(Settings):
    """OrbitMQ's own options; brokers and name servers have them in common."""

    health_port: int = option(
        0,
        "Port for /health/live and /health/ready over HTTP; 0: no port of its own.",
        minimum=0,
        maximum=65535,
    )
    health_host: str = option("", "The address of that port; bindAddress if empty.")
    log_level: str = option(
        "info",
        "debug, info, warning or error; or a list separated by `,` with levels of modules: "
        "info,orbitmq.store=debug.",
        mutable=True,
    )

    def complete(self) -> None:
        super().complete()
        try:
            parse_log_level(self.log_level)
        except ValueError as error:
            raise InvalidValue(
                "logLevel", self.log_level, str(error), self.sources.get("logLevel", "settings")
            ) from None


def parse_log_level(text: str) -> dict[str, int]:
    """Levels by logger, of `info` or `info,orbitmq.store=debug`. Raises ValueError: what is wanted."""
    levels: dict[str, int] = {}
    for item in text.split(","):
        name, _, level = item.strip().rpartition("=")
        known = _LEVELS.get(level.strip().lower())
        if known is None or (name and not _LOGGER_NAME.fullmatch(name.strip())):
            raise ValueError(f"one of {', '.join(_LEVELS)}, or LOGGER=LEVEL, with `,` between")
        levels[name.strip()] = known
    levels.setdefault(ROOT, logging.INFO)
    return levels
