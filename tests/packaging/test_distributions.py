"""The distributions of a release, built from a copy of the checkout and installed where nothing else is."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from orbitmq.server.turn.listener import free_ports
from tests.packaging import operators_day
from tests.packaging.trial import try_out

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")

pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Output of a command; without OrbitMQ's sources on the path of Python."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def built(source: Path, kind: str, **environment: str) -> Path:
    """The one file that `python -m build` makes of a source tree."""
    made = source / "dist" / kind
    run(sys.executable, "-m", "build", "-n", f"--{kind}", f"--outdir={made}", ".", cwd=source, **environment)
    (file,) = made.iterdir()
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    tree = tmp_path_factory.mktemp("source")
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return built(tree, "sdist", ORBITMQ_COMPILE="0")  # else C is made of all hot modules first, and left out


@pytest.fixture(scope="module", params=["interpreted", pytest.param("compiled", marks=pytest.mark.nightly)])
def wheel(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the source distribution."""
    folder = tmp_path_factory.mktemp(request.param)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    if request.param == "interpreted":
        return built(tree, "wheel", ORBITMQ_COMPILE="0")
    return built(tree, "wheel", ORBITMQ_COMPILE="1", CFLAGS="-O0 -g0")


def test_the_source_distribution_has_what_operators_and_readers_need(source: Path) -> None:
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        *("deploy/Dockerfile", "deploy/compose.yaml", "deploy/systemd/orbitmq.service"),
        *("deploy/grafana/orbitmq.json", "deploy/prometheus/rules.yml"),
        *("docs/index.md", "examples/produce.py", "CHANGELOG.md", "SECURITY.md", "LICENSE"),
    } <= names
    assert any(name.endswith(".pxd") for name in names)
    assert not any(name.endswith((".so", ".c", ".pyc")) for name in names)


def test_the_name_of_a_wheel_says_whether_it_is_compiled(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name for name in archive.namelist() if name.endswith((".so", ".pyd"))]
        sources = [name for name in archive.namelist() if name.endswith("_cy.py")]
    assert sources
    if wheel.name.endswith("-py3-none-any.whl"):
        assert compiled == []
    else:
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        assert re.search(rf"-{tag}-{tag}-linux_\w+\.whl$", wheel.name)
        assert len(compiled) == len(sources)


def test_the_page_on_an_index_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment that has nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    return python


def test_an_install_where_nothing_else_is_sends_and_receives(
    wheel: Path, python: Path, tmp_path: Path
) -> None:
    expected = "none" if wheel.name.endswith("-any.whl") else "all"
    run(python, "-m", "orbitmq.compiled", "--expect", expected, cwd=tmp_path)
    assert run(python, SMOKE, cwd=tmp_path) == "hello\n"


@pytest.mark.parametrize("wheel", ["interpreted"], indirect=True)
def test_a_developer_s_first_day_with_an_order_service(python: Path, tmp_path: Path) -> None:
    try_out(python, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wheel", ["compiled"], indirect=True)
def test_a_developer_s_day_in_which_broker_and_service_are_killed(python: Path, tmp_path: Path) -> None:
    try_out(python, tmp_path, kills=12)


@pytest.mark.parametrize("wheel", ["interpreted"], indirect=True)
def test_an_operator_s_day(python: Path, tmp_path: Path) -> None:
    operators_day.try_out(python, tmp_path)


def test_the_command_of_an_install_serves_sends_and_receives(
    wheel: Path, python: Path, tmp_path: Path
) -> None:
    orbitmq = python.with_name("orbitmq")
    version = run(orbitmq, "--version", cwd=tmp_path)
    kind = "interpreted" if wheel.name.endswith("-any.whl") else "compiled"
    assert re.match(rf"orbitmq, version \d+\.\d+\.\S+ \(Python [\d.]+, {kind}\b", version)
    names, broker = free_ports(), free_ports(-2, 1, 2)
    flags = (f"--namesrv-port={names}", f"--broker-port={broker}", "--data-dir=data", "--ready-file=ready")
    with subprocess.Popen([orbitmq, "standalone", *flags], cwd=tmp_path) as server:
        try:
            for _ in range(600):
                if (tmp_path / "ready").exists():
                    break
                assert server.poll() is None
                time.sleep(0.1)
            where = f"--namesrv=127.0.0.1:{names}"
            run(orbitmq, "produce", where, "--topic=orders", "--body=from the shell", cwd=tmp_path)
            read = ("--topic=orders", "--from=first", "--max=1")
            assert run(orbitmq, "consume", where, *read, cwd=tmp_path) == "from the shell\n"
        finally:
            server.terminate()
    assert server.returncode == 0
