"""Damage to a file, the result of a start on it, and the table that tells users."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust" / "reliability.md"

# Results of a start.
REPAIRED = "repaired"  # everything acknowledged is there
REFUSED = "refused"  # one line says which file, what is wrong, and what to do; nothing is changed
COUNTED = "counted"  # what the file held is gone; it is counted and logged, the rest is served
AGAIN = "again"  # everything is there; timers of the last days may come once more
KEPT = "kept"  # the .bak is taken, with a warning

Defect = Callable[[Path, Path], None]


def missing(path: Path, root: Path) -> None:
    path.unlink()


def empty(path: Path, root: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path, root: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])


def foreign(path: Path, root: Path) -> None:
    """Bytes of something else, as many as there were."""
    size = path.stat().st_size
    path.write_bytes(random.Random(1).randbytes(size) if size else b"x")


def zeros(path: Path, root: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def longer(path: Path, root: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def folder(path: Path, root: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, root: Path) -> None:
    """A reader that opens it waits until somebody writes to it."""
    path.unlink()
    os.mkfifo(path)


def unreadable(path: Path, root: Path) -> None:
    """Nobody may read it."""
    path.chmod(0)


def swapped(path: Path, root: Path) -> None:
    """The content of another file of the same kind; each test knows of which."""


def future(path: Path, root: Path) -> None:
    """Content that a later version, or a later moment, might have written."""
    data = path.read_bytes()
    if data[:1] == b"{":
        path.write_bytes(data.replace(b"{", b'{"fromTheFuture":{"a":[1,{}]},', 1))
    else:
        path.write_bytes((1 << 62).to_bytes(8, "big") * 3 + data[24:])


TABLE = {
    missing: KEPT, empty: KEPT, truncated: KEPT, foreign: KEPT, zeros: KEPT, swapped: KEPT, future: REPAIRED,
    folder: REFUSED, pipe: REFUSED, unreadable: REFUSED,
}  # fmt: skip


def assert_documented(place: str, defects: Iterable[Defect]) -> None:
    """That the table of bad files in docs/trust/reliability.md has each defect of a place."""
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE))
    for defect in defects:
        assert defect.__name__ in rows[place], (place, defect.__name__)
