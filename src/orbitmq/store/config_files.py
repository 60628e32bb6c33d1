"""The JSON files of the folder `config`: whole or not at all, and the one before kept as `.bak`.

A write goes to a file beside, is synced, and takes the place of the present one, which stays as `NAME.bak`.
At every moment one of the two is whole. Apache renames first and writes in place afterwards: between its two
steps only the `.bak` exists, so a reader looks there before it decides that there is nothing.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.store import failpoints

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class ConfigText:
    """What was read. `source` is the file it came from; both are None where there was nothing."""

    text: str | None
    source: Path | None


def backup_path(path: Path) -> Path:
    """Where the one before is kept."""
    return path.with_name(path.name + ".bak")


def read_text(path: Path, is_whole: Callable[[str], bool] | None = None) -> ConfigText:
    """The content of a file, or of its `.bak` if the file is missing, empty or torn.

    `is_whole` tells whether a text is usable; by default it has to have the outer form of JSON. If neither
    file is usable but one is there, the text of the better one is given all the same: its reader refuses it
    with the reason, and nothing starts over from an empty table by itself.
    """
    whole = is_whole or _looks_whole
    unusable: ConfigText | None = None
    for candidate in (path, backup_path(path)):
        try:
            text = candidate.read_bytes().decode("utf-8", "replace")
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


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Puts a text in the place of a file, durably; what was there becomes the `.bak`. Raises OSError.

    `mode` is the file's own, whatever it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & ~mode:
            os.fchmod(fd, mode)
        view = memoryview(text.encode())
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    if failpoints.armed:
        failpoints.hit("config.before_rename")
    _keep_as_backup(path)
    if failpoints.armed:
        failpoints.hit("config.between_renames")
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep_as_backup(path: Path) -> None:
    """Makes the present file the backup, unless it is empty: the backup may then be all there is."""
    try:
        if not path.stat().st_size:
            return
    except FileNotFoundError:
        return
    os.replace(path, backup_path(path))
