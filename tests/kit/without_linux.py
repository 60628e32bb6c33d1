"""A plugin that refuses the modules of Linux to all that runs elsewhere, too:
`pytest -p tests.kit.without_linux`.

Clients, commands, administration and the Spark source must not import them; brokers, which run on Linux
only, and the tests themselves may. A test that passes with it needs no module that macOS or Windows lack.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

LINUX_ONLY = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"})
PORTABLE = tuple(
    f"orbitmq.{name}"
    for name in ("access", "admin", "cli", "client", "net", "options", "protocol", "spark", "sync")
)
IN_WORKERS_OF_SPARK = "orbitmq.spark.lake"
"""It takes whichever lock the system has."""

_import = builtins.__import__


def _portable_import(name: str, globals: Mapping[str, Any] | None = None, *rest: Any, **named: Any) -> Any:
    importer = (globals or {}).get("__name__", "")
    if name in LINUX_ONLY and importer.startswith(PORTABLE) and not importer.startswith(IN_WORKERS_OF_SPARK):
        raise ModuleNotFoundError(f"{importer} imports {name}, which macOS or Windows lacks", name=name)
    return _import(name, globals, *rest, **named)


builtins.__import__ = _portable_import
