"""Brokers that are killed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.store.files import RealDisk
from orbitmq.testing import LocalBroker

OwnProcess = Callable[..., LocalBroker]


@pytest.fixture
def own_process(tmp_path: Path) -> Iterator[OwnProcess]:
    """Makes brokers of a process of their own over one folder; none is left at the end."""
    made: list[LocalBroker] = []

    def make(**properties: object) -> LocalBroker:
        made.append(LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120, **properties))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def modes_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user that runs the tests may be root, who may read everything; the user of a broker or a client may
    not."""

    def asked(real: Callable[..., Any], path: Path, *more: Any) -> Any:
        if path.exists() and not stat.S_IMODE(path.stat().st_mode):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *more)

    read, opened = Path.read_bytes, RealDisk.open
    monkeypatch.setattr(Path, "read_bytes", lambda path: asked(read, path))
    monkeypatch.setattr(
        RealDisk, "open", lambda disk, path, *more: asked(lambda *rest: opened(disk, *rest), path, *more)
    )
