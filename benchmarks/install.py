"""Finding and fetching what a benchmark runs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks.brokers import Installed

HERE = Path(__file__).parent


def install(work_dir: Path, command: str | None) -> Installed:
    """Finds Java and OrbitMQ, fetches Apache's jars once and compiles the load generator."""
    if sys.platform != "linux":
        raise click.ClickException("the benchmark reads /proc and runs on Linux only")
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise click.ClickException(f"{tool} is not on PATH: a JDK 17 or newer and Maven are needed")
    orbitmq = command or str(Path(sys.executable).with_name("orbitmq"))
    if shutil.which(orbitmq) is None:
        raise click.ClickException(f"{orbitmq} is no command; run `make setup`, or name one with --orbitmq")
    work_dir.mkdir(parents=True, exist_ok=True)
    jars, classes = work_dir / "jars", work_dir / "classes"
    pom, sources = HERE / "pom.xml", sorted((HERE / "java").glob("*.java"))
    fetch(pom, jars, "Apache RocketMQ 5.4.0")
    compile_java(sources, jars, classes)
    return Installed(jars, "java", orbitmq)


def fetch(pom: Path, jars: Path, what: str) -> None:
    """Fetches the artifacts of a list, once."""
    if not _older(jars / ".done", pom):
        return
    click.echo(f"Fetching {what} from Maven Central …")
    shutil.rmtree(jars, ignore_errors=True)
    _call("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    (jars / ".done").touch()


def compile_java(sources: list[Path], jars: Path, classes: Path) -> None:
    """Compiles sources that have changed since they were compiled."""
    if any(_older(classes / ".done", source) for source in sources):
        _call("javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, sources))
        (classes / ".done").touch()


def without_compiled(orbitmq: str, folder: Path) -> Path:
    """A copy of the installed modules without those that are compiled; the same files run interpreted."""
    python = Path(shutil.which(orbitmq) or orbitmq).with_name("python")
    find = "import orbitmq, pathlib; print(pathlib.Path(orbitmq.__file__).parent)"
    found = subprocess.run([str(python), "-c", find], capture_output=True, text=True, check=True, cwd="/")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        found.stdout.strip(),
        folder / "orbitmq",
        ignore=shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__"),
    )
    return folder


def _older(made: Path, source: Path) -> bool:
    return not made.exists() or made.stat().st_mtime < source.stat().st_mtime


def _call(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"{command[0]} failed with exit code {error.returncode}") from None


def compiled(orbitmq: str) -> bool:
    """True if the hot modules of the measured installation are compiled."""
    python = Path(shutil.which(orbitmq) or orbitmq).with_name("python")
    check = [str(python), "-m", "orbitmq.compiled", "--expect", "all"]
    return subprocess.run(check, capture_output=True, cwd="/").returncode == 0


def facts_of(installed: Installed, is_compiled: bool | None) -> dict[str, Any]:
    """Facts that have to be the same for a run to be comparable: the machine and the programs."""
    java = subprocess.run([installed.java, "-version"], capture_output=True, text=True).stderr
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "java": java.splitlines()[0] if java else "?",
        "python": platform.python_version(),
        "commit": commit,
        "compiled": is_compiled,
    }
