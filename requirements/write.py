"""Writes build.txt and lock.txt beside this file from what is installed for this Python (`make lock`)."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILD = ("cython", "packaging", "pip", "setuptools", "wheel")
ONLY_WHERE = {
    "atheris": 'python_version < "3.12" and sys_platform == "linux" and platform_machine == "x86_64"',
    "backports.zstd": 'python_version < "3.14"',
    "uvloop": 'sys_platform != "win32"',
}
ELSEWHERE: list[str] = []  # needed on platforms other than the one that writes the lock

BUILD_HEAD = "# What builds OrbitMQ and the packages that come as source. Written by `make lock`.\n"
LOCK_HEAD = (
    "# Everything a checkout needs to run, test and lint, complete (installed with --no-deps).\n"
    "# Written by `make lock` from the extras in pyproject.toml.\n"
)


def installed() -> list[str]:
    """`name==version` of everything installed but OrbitMQ itself, by name."""
    command = [sys.executable, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    frozen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    pins = {pin for pin in [*frozen, *ELSEWHERE] if "==" in pin}
    return sorted(pins, key=str.lower)


def write() -> None:
    """Splits the pins: builders first, the rest with the platforms they belong to."""
    build, rest = [], []
    for pin in installed():
        name = pin.partition("==")[0].lower()
        if name in BUILD:
            build.append(pin)
        else:
            rest.append(f"{pin}; {ONLY_WHERE[name]}" if name in ONLY_WHERE else pin)
    (HERE / "build.txt").write_text(BUILD_HEAD + "\n".join(build) + "\n")
    (HERE / "lock.txt").write_text(LOCK_HEAD + "\n".join(rest) + "\n")


if __name__ == "__main__":
    write()
