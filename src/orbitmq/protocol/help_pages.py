"""Parts of errors that help: pages of the documentation, and names that may be meant."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN_TOPICS = "https://orbitmq.github.io/orbitmq/operate/operations/#unknown-topics"


def did_you_mean(near: Sequence[str]) -> str:
    """The part of an error's text that names what is like the name it is about; empty without one."""
    return f". Is it {' or '.join(near)}?" if near else ""
