"""The JSON files of the folder `config`: whole or not at all, and the one before kept as `.bak`.

A write goes to a file beside, is synced, and takes the place of the present one, which stays as `NAME.bak`.
At every moment one of the two is whole. Apache renames first and writes in place afterwards: between its two
steps only the `.bak` exists, so a reader looks there before it decides that there is nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orbitmq import failpoints
from orbitmq.store.files import Disk, RealDisk, write_beside

log = logging.getLogger(__name__)

_REAL_DISK = RealDisk()


@dataclass(slots=True, frozen=True)
class ConfigText:
    """A text that was read. `source` is its file; both are None if there was none."""

    text: str | None
    source: Path | None


def backup_path(path: Path) -> Path:
    """Path of the previous version."""
    return path.with_name(path.name + ".bak")


def read_text(path: Path, is_usable: Callable[[str], bool], disk: Disk = _REAL_DISK) -> ConfigText:
    """The content of a file, or of its `.bak` if the file is missing or its reader cannot use it.

    Such a file is kept as `NAME.torn`: the next write would make it the `.bak`, and a kill between its two
    steps would leave nothing else.
    If neither is usable but one is there, empty or not, the text of the better one is given all the same: its
    reader refuses it with the reason, and nothing starts over from an empty table by itself.
    """
    unusable: ConfigText | None = None
    for candidate in (path, backup_path(path)):
        try:
            text = disk.content(candidate).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        if is_usable(text):
            if candidate != path:
                log.warning("%s is missing or torn: took %s", path, candidate)
                if unusable is not None:
                    _keep_damaged(path, disk)
            return ConfigText(text, candidate)
        log.warning("%s is %s", candidate, "torn" if text.strip(" \t\r\n\x00") else "empty")
        unusable = unusable or ConfigText(text, candidate)
    return unusable or ConfigText(None, None)


def write_text(path: Path, text: str, mode: int = 0o644, disk: Disk = _REAL_DISK) -> None:
    """Puts a text in the place of a file, durably; what was there becomes the `.bak`. Raises OSError.

    `mode` is the file's own, whatever it was before.
    """
    disk.make_folder(path.parent)
    data = text.encode("utf-8", "replace")  # half a surrogate pair becomes "?", as in Java and on the wire
    beside = write_beside(disk, path, data, mode)
    if failpoints.armed:
        failpoints.hit("config.before_rename")
    _keep_as_backup(path, disk)
    if failpoints.armed:
        failpoints.hit("config.between_renames")
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def _keep_damaged(path: Path, disk: Disk) -> None:
    try:
        disk.rename(path, path.with_name(path.name + ".torn"))
        disk.sync_folder(path.parent)
    except OSError as error:  # The text that was read is whole all the same.
        log.warning("%s stays where it is: %s", path, error)


def _keep_as_backup(path: Path, disk: Disk) -> None:
    """Makes the present file the backup, unless it is empty: the backup may then be all there is."""
    try:
        if not disk.size(path):
            return
    except FileNotFoundError:
        return
    disk.rename(path, backup_path(path))
