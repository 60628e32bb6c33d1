"""Commands of files in `deploy/`, run up to the point at which their server would start."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orbitmq.cli.app import app
from orbitmq.server.lifecycle import process

ROOT = Path(__file__).parents[2]


def image_environment() -> dict[str, str]:
    """The variables that every container of the image has."""
    text = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    [line] = [line for line in text.splitlines() if line.startswith("ENV ")]
    return dict(pair.split("=", 1) for pair in shlex.split(line.removeprefix("ENV ")))


@contextmanager
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@dataclass(frozen=True)
class Settled:
    """A server before its start."""

    server: Any
    settings: Any
    """Its options, of a standalone those of the broker; None of a console."""


def settle(
    words: Sequence[str], environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> Settled | None:
    """The server that a command line makes in this environment; it is not started.

    The command itself reads flags, options and files, and raises for those that it does not know or that do
    not go together. A command that starts no server is run; then the result is None.
    """
    found: list[Settled] = []

    async def serve(server: Any, *, settings: Sequence[Any] = (), **_: Any) -> None:
        found.append(Settled(server, settings[0] if settings else None))

    def run(coroutine: Coroutine[Any, Any, Any]) -> None:
        with pytest.raises(StopIteration):
            coroutine.send(None)

    with monkeypatch.context() as patched, _root_logger_as_it_was():
        patched.setattr(process, "run", run)
        patched.setattr(process, "serve", serve)
        for name, value in {**image_environment(), **environment}.items():
            if name != "PATH":
                patched.setenv(name, value)
        app.main([*words], standalone_mode=False)
    return found[0] if found else None
