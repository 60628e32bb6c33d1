"""Writes the files of `hashed/`: packages of a release with the hashes of their files (`make lock`, by uv).

Versions are those of build.txt and lock.txt beside this file; what is in neither is the newest.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE / "hashed"
PROJECT = HERE.parent / "pyproject.toml"
HEAD = "# {what}\n# Written by `make lock`; installed with --require-hashes.\n"
IMAGE = ("auth", "console", "controller", "delay", "fast", "kafka", "oidc", "proxy", "schemas", "zookeeper")
"""Extras in the container image: those of every server."""
BUILDERS = ("cython", "packaging", "setuptools", "wheel")


def pins(name: str) -> dict[str, str]:
    """The requirements of a lock file by package, without their conditions and settings of builds."""
    lines = (HERE / name).read_text().splitlines()
    found = [line.partition(";")[0].split()[0] for line in lines if "==" in line and not line.startswith("#")]
    return {pin.partition("==")[0].lower(): pin for pin in found}


def compile_file(name: str, what: str, python: str, requirements: list[str], *arguments: str) -> None:
    """Resolves requirements for all platforms, and writes them with hashes."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, constraints, made = (Path(folder) / one for one in ("in.txt", "constraints.txt", "out.txt"))
        wanted.write_text("".join(f"{one}\n" for one in requirements))
        known = {**pins("lock.txt"), **pins("build.txt")}
        constraints.write_text("".join(f"{pin}\n" for pin in known.values()))
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"),
            *("--no-annotate", "--no-header", "--python-version", python),
            *("--constraint", str(constraints), "--output-file", str(made)),
            *(arguments or (str(wanted),)),
        ]
        subprocess.run(command, check=True)
        (TARGET / name).write_text(HEAD.format(what=what) + made.read_text())


def write() -> None:
    """Writes all of them."""
    TARGET.mkdir(exist_ok=True)
    build = pins("build.txt")
    builders = [build[name] for name in BUILDERS]
    compile_file("build.txt", "Builds OrbitMQ's wheels.", "3.11", builders)
    compile_file("release.txt", "Builds and checks a release's files.", "3.11", [*builders, "build", "twine"])
    extras = (word for extra in IMAGE for word in ("--extra", extra))
    image = "OrbitMQ's dependencies in the container image."
    compile_file("image.txt", image, "3.13", [], *extras, str(PROJECT))


if __name__ == "__main__":
    write()
