"""The JSON files of the folder `config`: whole or not at all, and the one before kept as `.bak`.

A write goes to a file beside, is synced, and takes the place of the present one, which stays as `NAME.bak`.
At every moment one of the two is whole. Apache renames first and writes in place afterwards: between its two
steps only the `.bak` exists, so a reader looks there before it decides that there is nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.store import failpoints
from orbitmq.store.files import Disk, RealDisk

log = logging.getLogger(__name__)

_REAL_DISK = RealDisk()


@dataclass(slots=True, frozen=True)
class ConfigText:
    """What was read. `source` is the file it came from; both are None where there was nothing."""

    text: str | None
    source: Path | None


def backup_path(path: Path) -> Path:
    """Where the one before is kept."""
    return path.with_name(path.name + ".bak")


def read_text(
    path: Path, is_whole: Callable[[str], bool] | None = None, disk: Disk = _REAL_DISK
) -> ConfigText:
    """The content of a file, or of its `.bak` if the file is missing, empty or torn.

    `is_whole` tells whether a text is usable; by default it has to have the outer form of JSON. If neither
    file is usable but one is there, the text of the better one is given all the same: its reader refuses it
    with the reason, and nothing starts over from an empty table by itself.
    """
    whole = is_whole or _looks_whole
    unusable: ConfigText | None = None
    for candidate in (path, backup_path(path)):
        try:
            text = disk.content(candidate).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        if not text.strip(" \t\r\n\x00"):
            log.warning("%s is empty: looking for its .bak", candidate)
            continue
        if whole(text):
            if candidate != path:
                log.warning("%s is missing or torn: took %s", path, candidate)
            return ConfigText(text, candidate)
        log.warning("%s is torn", candidate)
        unusable = unusable or ConfigText(text, candidate)
    return unusable or ConfigText(None, None)


def _looks_whole(text: str) -> bool:
    """Whether a text has the form of a JSON object to its end.

    Apache writes number keys without quotes, which the standard parser does not take; then the brackets
    outside of strings have to match.
    """
    if "\x00" in text or not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return _brackets_match(text)
    return True


def _brackets_match(text: str) -> bool:
    depth = 0
    in_string = escaped = False
    closed = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif closed:
            if not character.isspace():
                return False
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            closed = depth == 0
    return closed


def write_text(path: Path, text: str, mode: int = 0o644, disk: Disk = _REAL_DISK) -> None:
    """Puts a text in the place of a file, durably; what was there becomes the `.bak`. Raises OSError.

    `mode` is the file's own, whatever it was before.
    """
    disk.make_folder(path.parent)
    beside = path.with_name(path.name + ".tmp")
    data = text.encode()
    disk.remove(beside)
    file = disk.open(beside, len(data), mode)
    try:
        file.write(0, data)
        file.sync()
    finally:
        file.close()
    if failpoints.armed:
        failpoints.hit("config.before_rename")
    _keep_as_backup(path, disk)
    if failpoints.armed:
        failpoints.hit("config.between_renames")
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def _keep_as_backup(path: Path, disk: Disk) -> None:
    """Makes the present file the backup, unless it is empty: the backup may then be all there is."""
    try:
        if not disk.size(path):
            return
    except FileNotFoundError:
        return
    disk.rename(path, backup_path(path))
