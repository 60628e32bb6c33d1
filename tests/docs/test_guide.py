"""Every script of the application guide runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker

GUIDE = Path(__file__).parents[2] / "docs" / "application-guide.md"
SCRIPTS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
PRINTS = [
    "SEND_OK … 1000 clicks are stored",
    "invoices new invoice 1 came again",
    "letter 0 letter 1 letter 2",
    "remember the milk",
]


@pytest.mark.parametrize(("script", "prints"), list(zip(SCRIPTS, PRINTS, strict=True)), ids=PRINTS)
def test_script(script: str, prints: str, rocketmq: LocalBroker) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": rocketmq.namesrv}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    pattern = ".*".join(re.escape(part) for part in prints.split("…"))
    assert re.fullmatch(pattern, " ".join(done.stdout.split())), done.stdout + done.stderr
