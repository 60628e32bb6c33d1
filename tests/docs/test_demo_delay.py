"""`make demo-delay`: what it schedules is what comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.kafka import Kafka

DEMO = Path(__file__).parents[2] / "examples" / "demo_delay.py"


@pytest.mark.needs("java", "mvn")
def test_it_delivers_what_it_says(tmp_path: Path) -> None:
    with Kafka(tmp_path / "kafka") as kafka:
        command = [sys.executable, str(DEMO), "--kafka", kafka.address]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the mistake: cancelled" in done.stdout
    assert "came: hello from Kafka" in done.stdout
    assert "still waiting: far" in done.stdout
    assert "the calendar of what waits is live at http://" in done.stdout
