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
    ROOT / "tests" / "typing" / "idempotent.py",
    *(
        ROOT / "examples" / f"{name}.py"
        for name in ("produce", "consume", "worker", "transaction", "payments")
    ),
]


@pytest.mark.parametrize("is_user", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_mypy_strict_finds_a_mistake_and_nothing_else(tmp_path: Path, is_user: bool) -> None:
    """With the package's configuration, mypy takes what it knows of the package from `make lint`: a tenth of
    the time. At night with that of a user, who has none of it.
    """
    options = []
    if is_user:
        config = tmp_path / "mypy.ini"
        config.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
        options = [f"--config-file={config}", f"--cache-dir={os.devnull}"]
    wrong = tmp_path / "wrong.py"
    wrong.write_text('from orbitmq import Message\n\nMessage("topic", b"", tag="one")\n')
    command = [sys.executable, "-m", "mypy", *options, *map(str, [*PROGRAMS, wrong])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if ": note: " not in line]
    assert len(told) == 2, done.stdout + done.stderr
    assert 'wrong.py:3: error: Unexpected keyword argument "tag"' in told[0]
    assert told[1].startswith("Found 1 error in 1 file")


@pytest.mark.nightly
@pytest.mark.needs("pyright")
def test_pyright_finds_nothing() -> None:
    program = pyright()
    assert program is not None
    command = [program, "--pythonpath", sys.executable, *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0 errors")
