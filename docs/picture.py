"""Draws docs/pictures/demo.svg from a run of the demo: `python docs/picture.py`."""

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
    """Output of the demo in colour, with the reader's folders in place of ours."""
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), f"--data-dir={folder}", *arguments]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    said = done.stdout.decode().replace(str(folder), "demo-data").replace(str(ROOT), ".")
    return "\n".join(screen(said)).strip()


def screen(output: str) -> list[str]:
    """The lines as they stand at the end, for progress bars redraw theirs; colours are kept."""
    lines, row = [""], 0
    for part in re.split(r"(\n|\r|\x1b\[[\d;?]*[A-Za-ln-z])", output):
        if part == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif up := re.fullmatch(r"\x1b\[(\d*)A", part):
            row = max(0, row - int(up[1] or 1))
        elif re.fullmatch(r"\x1b\[\d*K", part):
            lines[row] = ""
        elif part != "\r" and not re.fullmatch(r"\x1b\[[\d;?]*[A-Za-ln-z]", part):
            lines[row] += part
    return lines


def draw(text: str) -> str:
    """The transcript as a terminal window."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text("$ make demo"))
        console.print(Text.from_ansi(text), soft_wrap=True)
    return console.export_svg(title="make demo", unique_id="demo")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        (ROOT / "docs" / "pictures" / "demo.svg").write_text(draw(transcript(Path(temporary), sys.argv[1:])))
