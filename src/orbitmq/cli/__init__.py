"""The `orbitmq` command: servers, probes, producing and consuming by hand, and administration."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Runs the command line; the process ends with its exit code."""
    # Modules are no garbage: to look for some again and again takes an eighth of a server's start.
    gc.set_threshold(50_000)
    try:
        from orbitmq.cli.app import run

        code = run()
    except KeyboardInterrupt:
        # While modules are read, or when what a command had to say is already said.
        print("aborted", file=sys.stderr)
        code = 130
    raise SystemExit(code)


__all__ = ["main"]
