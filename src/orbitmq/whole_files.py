"""Files that are there whole or not at all, over crashes and power cuts."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def write_whole(path: Path, data: bytes | str, *, mode: int = 0o666) -> None:
    """Puts a file in the place of `path` once it is on the disk; makes the folder. Raises OSError.

    `mode` are the permissions of a new file, less what the umask takes away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Brings names to the disk: of files that were made, renamed or removed. Raises OSError."""
    if sys.platform == "win32":
        return  # it has no descriptors of folders
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
