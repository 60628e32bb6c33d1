"""The `orbitmq` command: servers, probes, producing and consuming by hand, and administration."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; the process ends with its exit code."""
    try:
        from orbitmq.cli.app import run

        code = run()
    except KeyboardInterrupt:
        # While modules are read, or when what a command had to say is already said.
        print("aborted", file=sys.stderr)
        code = 130
    raise SystemExit(code)


__all__ = ["main"]
