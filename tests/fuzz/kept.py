"""Inputs that reach what the seeds do not: small, in the repository, in one archive for each target."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MAX_INPUTS = 200
MAX_BYTES = 48 << 10
"""Of all inputs of a target together."""


def kept(name: str) -> list[bytes]:
    """The inputs that are kept for a target."""
    path = FOLDER / f"{name}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(entry) for entry in archive.namelist()]


def keep(name: str, inputs: Iterable[bytes]) -> int:
    """Keeps the smallest inputs in place of those that are there; gives their number.

    The same inputs make the same archive.
    """
    chosen: list[bytes] = []
    size = 0
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        size += len(data)
        if len(chosen) >= MAX_INPUTS or size > MAX_BYTES:
            break
        chosen.append(data)
    FOLDER.mkdir(exist_ok=True)
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(chosen):
            archive.writestr(zipfile.ZipInfo(f"{number:03}"), data, zipfile.ZIP_DEFLATED)
    return len(chosen)
