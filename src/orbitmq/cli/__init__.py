"""The `orbitmq` command: servers, probes, producing and consuming by hand, and administration."""

from __future__ import annotations


def main() -> None:
    """Runs the command line; the process ends with its exit code."""
    from orbitmq.cli.app import run

    raise SystemExit(run())


__all__ = ["main"]
