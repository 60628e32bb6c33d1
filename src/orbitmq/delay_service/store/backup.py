"""Backups of a store: a copy while it is used, and its way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from orbitmq.delay_service.errors import StoreDamaged, StoreError, StoreFull
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Kind, Restored, encode
from orbitmq.delay_service.store.store import FOLDER, MARK, DelayStore
from orbitmq.delay_service.store.times import rfc_3339

BACKUPS = "backups"
ABOUT = "backup.json"
PART = 10_000
"""Messages that one write removes."""


class NoBackup(StoreError):
    """A folder is no backup, or cannot be restored to."""


def make_backup(store: DelayStore, now: int) -> Path:
    """Copies a store into a folder of its own beside it. Raises StoreFull."""
    folder = store.folder / BACKUPS / rfc_3339(now).replace(":", "-")
    beside = folder.with_name(folder.name + ".tmp")
    try:
        beside.mkdir(parents=True)
        store.checkpoint(beside / FOLDER)
        (beside / ABOUT).write_text(json.dumps({"time": now, "time_at": rfc_3339(now)}) + "\n")
        beside.rename(folder)
    except OSError as error:
        raise StoreFull(f"{folder}: {error.strerror}") from None
    return folder


def backup_time(backup: Path) -> int:
    """The time (ms) of a backup. Raises NoBackup."""
    try:
        found = json.loads((backup / ABOUT).read_text())
        return int(found["time"])
    except (OSError, ValueError, KeyError, TypeError):
        raise NoBackup(f"{backup} is no backup: it has no {ABOUT} that tells its time") from None


def restore(backup: Path, folder: Path, begin: int | None, now: int) -> int:
    """Makes a backup the store of a folder, and gives the number of messages that were left out.

    With `begin`, messages due before that time count as delivered. Raises NoBackup, StoreError.
    """
    backup_time(backup)
    if (folder / FOLDER).exists() or (folder / MARK).exists():
        raise NoBackup(f"{folder} has a store: move {folder / FOLDER} and {folder / MARK} away first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(backup / FOLDER, folder / FOLDER)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        raise StoreFull(f"{folder}: the backup cannot be copied: {error}") from None
    try:
        store = DelayStore(folder)
    except StoreDamaged:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        raise
    try:
        return 0 if begin is None else _leave_out(store, begin, now)
    finally:
        store.close()


def _leave_out(store: DelayStore, begin: int, now: int) -> int:
    """Removes what was due before a time; repetitions stay, and catch up as they say."""
    count = 0
    for lane in store.numbered("lane "):
        end = keys.pending_key(lane, max(0, begin), 0, 0)
        start = keys.lane_start(lane)
        while found := list(store.items(start, end, PART)):
            changes = store.changes()
            for key, value in found:
                pending = store.read_pending(value)
                if pending.repeat is not None:
                    continue
                changes.remove(key)
                count += 1
                if key[-1] == Kind.MESSAGE:
                    changes.delete(keys.name_key(pending.cluster, pending.name))
                    changes.put(keys.gone_key(now // keys.HOUR_MS, pending.cluster, pending.name), b"")
            store.write(changes)
            start = found[-1][0] + b"\0"
    changes = store.changes()
    changes.put(keys.RESTORED_KEY, encode(Restored(now, begin)))
    store.write(changes)
    return count
