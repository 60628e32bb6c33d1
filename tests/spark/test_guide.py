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
from orbitmq.spark.session.start_query import TOO_BUSY
from tests.peers.machine import REPOSITORY

GUIDE = REPOSITORY / "docs" / "data" / "data-guide.md"
NOTEBOOK = REPOSITORY / "examples" / "data_notebook.py"
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("java_for_spark")]


def reading(places: pytest.TempPathFactory, *paths: Path) -> tuple[Path, str]:
    """Reads a guide, then runs notebooks; the folder they ran in, and what they printed.

    Spark gives a Python process ten seconds to start: on a machine too busy for that all is run again.
    """
    for _ in range(3):
        place = places.mktemp("guide")
        done = subprocess.run(
            [sys.executable, "-u", "-m", "tests.spark.guide", *map(str, paths)],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0 or TOO_BUSY not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return place, done.stdout


def test_the_guide_up_to_its_jobs(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """Each job has a test of its command of its own; the guide runs all of them at night."""
    before, jobs, _ = GUIDE.read_text().partition("\n## Jobs\n")
    assert jobs
    (tmp_path / GUIDE.name).write_text(before)
    _, said = reading(tmp_path_factory, tmp_path / GUIDE.name)
    assert said.count(">>> ") == before.count("```python")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """All of the guide and the notebook."""
    return reading(tmp_path_factory, GUIDE, NOTEBOOK)


@pytest.mark.nightly
def test_every_command_and_all_python_of_the_guide(read: tuple[Path, str]) -> None:
    place, _ = read
    for page in ("lag.html", "availability.html", "trace.html", "probes.html"):
        assert "</html>" in (place / page).read_text(), page


@pytest.mark.nightly
def test_the_notebook_ends_in_charts(read: tuple[Path, str]) -> None:
    place, said = read
    assert "in the folder: 5000" in said
    assert "in the files:  5000" in said
    page = (place / "data_notebook.html").read_text()
    assert page.count("<svg") == 2
    gifts = [re.findall(r"<td[^>]*>(.*?)</td>", row)[:5] for row in page.split("</tr>") if ">packing<" in row]
    assert gifts == [["gifts", "packing", "no", "60", "60"]], "all were sent, and all were handled"


def test_the_guide_knows_every_job() -> None:
    listed = re.findall(r"^\| \[?`(\w+)`", GUIDE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(JOBS)
