"""A release starts only where tag, package and change log agree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The command beside a package of version 1.2.3, whose changes are told."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "src" / "orbitmq").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "release.py", tmp_path / ".ci")
    (tmp_path / "src" / "orbitmq" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "## [Unreleased]\n\n\n## [1.2.3] - 2026-01-02\n\n- now\n\n## [1.2.2] - 2026-01-01\n\n- before\n"
    )
    return tmp_path


def release(checkout: Path, tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, checkout / ".ci" / "release.py", tag], capture_output=True, text=True
    )


def test_prints_the_changes_of_the_version(checkout: Path) -> None:
    done = release(checkout, "v1.2.3")
    assert (done.returncode, done.stdout) == (0, "- now\n")


@pytest.mark.parametrize(
    ("tag", "reason"),
    [("v1.2.2", "the package has version 1.2.3"), ("1.2.3", "usage"), ("v1.2.3rc1", "usage")],
)
def test_refuses_a_tag_that_is_not_the_version(checkout: Path, tag: str, reason: str) -> None:
    done = release(checkout, tag)
    assert done.returncode == 1
    assert reason in done.stderr


def test_refuses_a_version_whose_changes_are_not_told(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n- now\n")
    done = release(checkout, "v1.2.3")
    assert done.returncode == 1
    assert "no section" in done.stderr
