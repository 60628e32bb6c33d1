"""`make demo-delay`: what it schedules is what comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo_delay.py"


def test_it_delivers_what_it_says() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the mistake: cancelled" in done.stdout
    assert "still waiting: far" in done.stdout
