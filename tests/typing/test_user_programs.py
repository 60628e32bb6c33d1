"""Programs of users are checked as theirs are: by mypy with --strict and by pyright, where that is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import pyright

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    ROOT / "tests" / "typing" / "program.py",
    *(ROOT / "examples" / f"{name}.py" for name in ("produce", "consume", "worker", "transaction")),
]


def check(*command: str) -> str:
    done = subprocess.run([*command, *map(str, PROGRAMS)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mypy_strict_finds_nothing(tmp_path: Path) -> None:
    # The own configuration is for the package: a user has none of it.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    told = check(sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path}")
    assert "no issues found" in told


def test_mypy_finds_a_mistake(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text('from orbitmq import Message\n\nMessage("topic", b"", tag="one")\n')
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            f"--cache-dir={tmp_path}",
            "--follow-imports=silent",
            str(wrong),
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert 'Unexpected keyword argument "tag"' in done.stdout


@pytest.mark.needs("pyright")
def test_pyright_finds_nothing() -> None:
    program = pyright()
    assert program is not None
    assert check(program, "--pythonpath", sys.executable).startswith("0 errors")
