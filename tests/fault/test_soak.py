"""The soak in short: it runs, goes on with what an earlier run left, and notices what is wrong.

Planted errors: the clients believe that delayed messages wait for an hour, so that all of them come early.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault import soak

pytestmark = pytest.mark.timeout(600)
PLANTED = """
import sys
from tests.fault import mixed, soak
mixed.LEVELS_MS.update(dict.fromkeys(mixed.LEVELS_MS, 3_600_000))
sys.exit(soak.main())
"""


def planted(*arguments: object) -> str:
    """A line of a run that has to fail."""
    command = [sys.executable, "-c", PLANTED, *map(str, arguments)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_the_soak(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    figures.write_text(earlier := json.dumps({"piece": 4}) + "\n")
    told = planted(tmp_path, "--for", 2)
    lines = figures.read_text().splitlines()
    assert lines[0] == earlier.strip()
    samples = [json.loads(line) for line in lines[1:]]
    assert {sample["piece"] for sample in samples} == {5}
    assert all(sample["anonymous_kib"] > 0 and sample["handles"] > 0 for sample in samples)
    assert sum(sample["sends"] for sample in samples) > 0
    complaints = told.splitlines()[len(samples) :]
    assert complaints
    assert all(line.startswith("early") for line in complaints), complaints


FLAT = {"anonymous_kib": 40_000, "handles": 26, "threads": 12, "p50_ms": 5.0, "p99_ms": 40.0}


@pytest.mark.parametrize("name", [None, *FLAT])
def test_the_soak_tells_what_does_not_stay_flat(tmp_path: Path, name: str | None) -> None:
    """Growth within the warm-up does not matter; over all pieces together it is."""
    with (tmp_path / "figures.jsonl").open("w") as file:
        for piece in range(2):
            for number in range(soak.WARM_SAMPLES + 6):
                sample: dict[str, float] = {"piece": piece, **FLAT}
                if name is not None and piece == 1:
                    sample[name] *= 3.5
                elif number < soak.WARM_SAMPLES:
                    sample["anonymous_kib"] = 1_000
                file.write(json.dumps(sample) + "\n")
    complaints = soak.judge(tmp_path)
    assert [complaint.split()[0] for complaint in complaints] == ([name] if name else [])
