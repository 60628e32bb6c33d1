"""Draws docs/demo.svg, the picture in the README, from a run of the demo: `python docs/picture.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 110


def transcript(folder: Path, arguments: list[str]) -> str:
    """What the demo prints in colour, with the reader's folders in place of ours."""
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), f"--data-dir={folder}", *arguments]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    said = done.stdout.replace(str(folder), "demo-data").replace(str(ROOT), ".")
    # A progress bar redraws its lines: only what stands there at the end is kept.
    lines = [line.rpartition("\r")[2] for line in said.split("\n")]
    kept = [line for line in lines if not re.search(r"\x1b\[\d*A", line)]
    return "\n".join(re.sub(r"\x1b\[\?25[lh]|\x1b\[\d*K", "", line) for line in kept).strip()


def draw(text: str) -> str:
    """The transcript as a terminal window."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text("$ make demo"))
        console.print(Text.from_ansi(text), soft_wrap=True)
    return console.export_svg(title="make demo", unique_id="demo")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        (ROOT / "docs" / "demo.svg").write_text(draw(transcript(Path(temporary), sys.argv[1:])))
