"""Packages that an extra of OrbitMQ installs: the sentence that says so where one is missing."""

from __future__ import annotations


def lacking(what: str, package: str | None, *extras: str) -> str:
    """The text of an error: `what` needs a package, which these extras install."""
    return f"{what} needs {package or 'a package'}, which is not installed: {install(*extras)}"


def install(*extras: str) -> str:
    """The command that adds extras to an installed OrbitMQ."""
    return f"pip install 'orbitmq[{','.join(extras)}]'"
