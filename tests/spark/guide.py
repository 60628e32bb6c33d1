"""Reads the data guide as a reader would: its commands and its Python, in its order, in the working folder.

    python -m tests.spark.guide docs/data/data-guide.md examples/data_notebook.py

Commands of `orbitmq job` run in this process, where the guide's Python has a session already. The code that
comes after the guide is run as it is, on the same JVM, which takes longer to start than the notebook to run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

from orbitmq.cli.app import run as cli
from tests.docs.console import Shell, steps
from tests.docs.console import compare as check

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def read(guide: Path) -> None:
    """Runs every block; fails at the first that does not do what the guide says."""
    shell = Shell(Path.cwd())
    os.environ["NAMESRV_ADDR"] = shell.environment["NAMESRV_ADDR"]
    names: dict[str, Any] = {"__name__": "guide"}
    try:
        for kind, text in BLOCK.findall(guide.read_text()):
            if kind == "python":
                print(f">>> {text.splitlines()[0]}", flush=True)
                exec(compile(shell.here(text), guide.name, "exec"), names)
                continue
            for step in steps(f"```console\n{text}```\n"):
                print(f"$ {step.command}", flush=True)
                if step.command.startswith("orbitmq job "):
                    said = io.StringIO()
                    with contextlib.redirect_stdout(said):
                        code = cli(shlex.split(step.command)[1:])
                    assert code == 0, f"$ {step.command}\nexit code {code}"
                    check(step, said.getvalue())
                else:
                    shell.run(step)
    finally:
        if "spark" in names:
            names["spark"].stop()
        shell.close()


if __name__ == "__main__":
    read(Path(sys.argv[1]))
    for script in sys.argv[2:]:
        runpy.run_path(script, run_name="__main__")
