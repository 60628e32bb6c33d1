"""`python -m orbitmq.testing.prove.child ROOT RECORD COMMAND …`: an `orbitmq` command under a recorder."""

from __future__ import annotations

import sys
from pathlib import Path

from orbitmq.testing.prove.power import Recorder


def main() -> int:
    """Runs the command that the arguments hold."""
    root, record, *command = sys.argv[1:]
    Recorder(Path(root), Path(record)).install()
    # Only a process that is told to do so becomes a command: importing it here would tie the rooms together.
    from importlib import import_module

    run = import_module("orbitmq.cli.app").run
    return int(run(command))


if __name__ == "__main__":
    sys.exit(main())
