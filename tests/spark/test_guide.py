"""The data guide and the notebook do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.jobs import JOBS
from orbitmq.spark.jobs.patience import TOO_BUSY
from tests.peers.machine import REPOSITORY

GUIDE = REPOSITORY / "docs" / "data-guide.md"
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("java_for_spark")]


def run(folder: Path, *command: str) -> tuple[Path, str]:
    """Runs Python in a folder of its own; the folder, and what it printed.

    Spark gives a Python process ten seconds to start: on a machine too busy for that it is run again.
    """
    for attempt in range(3):
        place = folder / str(attempt)
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-u", *command],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0 or TOO_BUSY not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return place, done.stdout


def test_every_command_and_all_python_of_the_guide(tmp_path: Path) -> None:
    place, _ = run(tmp_path, "-m", "tests.spark.guide", str(GUIDE))
    for page in ("lag.html", "availability.html", "trace.html", "probes.html"):
        assert "</html>" in (place / page).read_text(), page


def test_the_notebook_ends_in_charts(tmp_path: Path) -> None:
    place, said = run(tmp_path, str(REPOSITORY / "examples" / "data_notebook.py"))
    assert "in the folder: 5000" in said
    assert "in the files:  5000" in said
    page = (place / "data_notebook.html").read_text()
    assert page.count("<svg") == 2
    gifts = [re.findall(r"<td[^>]*>(.*?)</td>", row)[:5] for row in page.split("</tr>") if ">packing<" in row]
    assert gifts == [["gifts", "packing", "no", "60", "60"]], "all were sent, and all were handled"


def test_the_guide_knows_every_job() -> None:
    listed = re.findall(r"^\| \[?`(\w+)`", GUIDE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(JOBS)
