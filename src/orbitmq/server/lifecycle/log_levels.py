"""The levels of logs, as the option `logLevel` has them now: changed while the process runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from orbitmq.options.reporting import ROOT, ReportingSettings, parse_log_level

log = logging.getLogger(__name__)


class LogLevels:
    """Applies the levels of a process's servers whenever one of them has other ones than before."""

    def __init__(self, followed: Sequence[ReportingSettings]) -> None:
        self._followed = followed
        self._applied = [""] * len(followed)
        self._named: set[str] = set()

    def look(self) -> None:
        """Call now and then: costs next to nothing while nothing changes."""
        for index, settings in enumerate(self._followed):
            if settings.log_level != self._applied[index]:
                is_change = bool(self._applied[index])
                self._applied[index] = settings.log_level
                self._apply(settings.log_level)
                if is_change:
                    log.warning("the level of logs is %s from now on", settings.log_level)

    def _apply(self, text: str) -> None:
        levels = parse_log_level(text)
        for name in self._named - set(levels):
            logging.getLogger(name).setLevel(logging.NOTSET)
        self._named = set(levels) - {ROOT}
        for name, level in levels.items():
            logging.getLogger(name or None).setLevel(level)
