"""`python -m orbitmq.testing.prove.child ROOT RECORD COMMAND …`: an `orbitmq` command under a recorder."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from orbitmq.testing.prove.power import Recorder


def main() -> None:
    """Becomes the command that the arguments hold."""
    root, record, *command = sys.argv[1:]
    Recorder(Path(root), Path(record)).install()
    sys.argv = ["orbitmq", *command]
    runpy.run_module("orbitmq", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
