"""The store: RocksDB under a few words. One writer; every write is whole or not at all.

A write is visible at once and safe against the end of the process; `sync` makes everything written before it
safe against a power cut. A full disk raises StoreFull, and the store has to be opened again.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from orbitmq import failpoints
from orbitmq.delay_service.errors import ExtraMissing, StoreDamaged, StoreFull, StoreLocked, StoreVersion
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import (
    NameEntry,
    Pending,
    Restored,
    decode_entry,
    decode_pending,
    decode_restored,
)
from orbitmq.whole_files import sync_folder

log = logging.getLogger(__name__)

VERSION: Final = 1
MARK: Final = "orbitmq-delay"
"""A file beside the database: it says that a database has been made here."""
FOLDER: Final = "db"
CACHE_BYTES: Final = 32 << 20
WRITE_BUFFER_BYTES: Final = 16 << 20
OPEN_FILES: Final = 256
CLOSE_SECONDS: Final = 60.0
GONE_HOURS: Final = 24
"""Time for which the store knows that a name's message has left."""
_ABSENT: Final = re.compile(r"No such file|not exist|does not exist", re.IGNORECASE)


def _library() -> Any:
    try:
        import rocksdict
    except ModuleNotFoundError:
        raise ExtraMissing("rocksdict", "delay") from None
    return rocksdict


class Changes:
    """Changes that are written together."""

    __slots__ = ("_batch", "_counts", "delete", "put")

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.put: Callable[[bytes, bytes], None] = batch.put
        self.delete: Callable[[bytes], None] = batch.delete
        self._counts: dict[bytes, int] = {}

    def add(self, key: bytes, value: bytes) -> None:
        """A pending message comes."""
        self.put(key, value)
        self._count(key, 1)

    def remove(self, key: bytes) -> None:
        """A pending message goes."""
        self.delete(key)
        self._count(key, -1)

    def _count(self, key: bytes, difference: int) -> None:
        count = key[1:5] + keys.hour_of(key).to_bytes(4, "big")
        self._counts[count] = self._counts.get(count, 0) + difference

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Everything from `first` to before `end` goes; of pending messages the counts are left alone."""
        self._batch.delete_range(first, end)

    @property
    def counts(self) -> dict[bytes, int]:
        """Differences of numbers of pending messages, by lane and hour."""
        return self._counts

    @property
    def batch(self) -> Any:
        """RocksDB's batch."""
        return self._batch

    def __bool__(self) -> bool:
        return not self._batch.is_empty()


class DelayStore:
    """Pending messages by target and time, names, positions, and counts.

    Opening raises StoreDamaged, StoreLocked, StoreVersion and StoreFull.
    """

    def __init__(self, folder: Path) -> None:
        self._rocks = _library()
        self.folder = folder
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self.counts: dict[int, dict[int, int]] = {}
        """Number of pending messages by lane and hour since 1970."""
        self.restored: Restored | None = None
        """The restore from a backup, if there was one."""
        self._db: Any = self._open()
        try:
            self._check_version()
            self._load()
        except BaseException:
            self._db.close()
            raise

    # Life.

    def _open(self) -> Any:
        folder = self.folder / FOLDER
        mark = self.folder / MARK
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if mark.exists() and not (folder / "CURRENT").exists():
                raise StoreDamaged(
                    f"{folder} lacks its file CURRENT: the store is damaged. Restore a backup "
                    "(`orbitmq delay restore`), or move the folder away to begin with an empty store"
                )
            db: Any = self._rocks.Rdict(str(folder), self._options())
            if not mark.exists():
                mark.write_text("This folder holds the store of `orbitmq delay`.\n")
                sync_folder(self.folder)
        except OSError as error:
            raise StoreFull(f"{self.folder}: {error.strerror}") from None
        except StoreDamaged:
            raise
        except Exception as error:
            raise _meant(error, folder) from None
        return db

    def _options(self) -> Any:
        rocks = self._rocks
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_paranoid_checks(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_write_buffer_number(3)
        options.set_max_total_wal_size(4 * WRITE_BUFFER_BYTES)
        options.set_target_file_size_base(16 << 20)
        options.set_max_bytes_for_level_base(64 << 20)
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_max_background_jobs(2)
        options.set_max_open_files(OPEN_FILES)
        options.set_compression_type(rocks.DBCompressionType.lz4())
        options.set_wal_recovery_mode(rocks.DBRecoveryMode.point_in_time())
        options.set_keep_log_file_num(3)
        options.set_max_log_file_size(1 << 20)
        options.set_max_manifest_file_size(16 << 20)
        options.set_stats_dump_period_sec(0)
        # Files full of deletions are compacted soon: deliveries delete from the front.
        options.add_compact_on_deletion_collector_factory(10_000, 5_000, 0.3)
        table = rocks.BlockBasedOptions()
        table.set_block_cache(rocks.Cache(CACHE_BYTES))
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_bloom_filter(10, False)
        table.set_format_version(5)
        options.set_block_based_table_factory(table)
        return options

    def _check_version(self) -> None:
        found = self._db.get(keys.VERSION_KEY)
        if found is None:
            if self._db.iter(self._read_options()).valid() or self._first_key() is not None:
                raise StoreDamaged(f"{self.folder}: the store has entries and no version: it is damaged")
            changes = self.changes()
            changes.put(keys.VERSION_KEY, str(VERSION).encode())
            self.write(changes)
            self.sync()
            return
        try:
            version = int(found)
        except ValueError:
            raise StoreDamaged(f"{self.folder}: the version of the store cannot be read") from None
        if version > VERSION:
            raise StoreVersion(
                f"{self.folder} has layout {version}, and this release knows {VERSION} at most: "
                "start the release that wrote it, or a newer one"
            )

    def _first_key(self) -> bytes | None:
        found = self._db.iter(self._read_options())
        found.seek_to_first()
        if not found.valid():
            return None
        key: bytes = found.key()
        return key

    def _load(self) -> None:
        for key, value in self.items(b"I", b"J"):
            self._remember(int.from_bytes(key[1:5], "big"), value.decode())
        for key, value in self.items(b"C", b"D"):
            self._count(key[1:9], int.from_bytes(value, "big"))
        self._drop_empty_lanes()
        restored = self.get(keys.RESTORED_KEY)
        self.restored = None if restored is None else decode_restored(restored)

    def _drop_empty_lanes(self) -> None:
        """Targets without pending messages give their numbers back: senders choose how many there are."""
        changes = self.changes()
        for number, text in list(self._texts.items()):
            if text.startswith("lane ") and not any(self.counts.get(number, {}).values()):
                changes.delete(keys.number_key(number))
                changes.delete(keys.claim_key(number))
                changes.delete(keys.held_key(number))
                del self._texts[number], self._numbers[text]
        if changes:
            self.write(changes)

    def close(self) -> None:
        """Ends it; what was written is on the disk. Raises StoreFull, and is closed even so."""
        try:
            self.sync()
        finally:
            self._close()

    def _close(self) -> None:
        """Closes the database. A compaction or a copy in another thread is ended, or waited for, first."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while True:
            try:
                self._db.close()
            except RuntimeError as error:
                if "borrowed" not in str(error) or time.monotonic() > deadline:
                    raise
                self._db.cancel_all_background(False)
                time.sleep(0.01)
            except Exception as error:
                # It is closed. The content of its memory tables is in the WAL, which the next start reads.
                if "Shutdown in progress" not in str(error):
                    raise StoreFull(f"{self.folder}: it ended with an error: {error}") from None
                return
            else:
                return

    # Reading.

    def _read_options(self) -> Any:
        options: Any = self._rocks.ReadOptions()
        options.set_verify_checksums(True)
        return options

    def items(self, first: bytes, end: bytes, limit: int = 1 << 62) -> Iterator[tuple[bytes, bytes]]:
        """Entries from `first` to before `end`, in order. Raises StoreDamaged."""
        options = self._read_options()
        options.set_iterate_upper_bound(end)
        found = self._db.iter(options)
        found.seek(first)
        while limit > 0 and found.valid():
            yield found.key(), found.value()
            found.next()
            limit -= 1
        try:
            found.status()
        except Exception as error:
            raise _meant(error, self.folder) from None

    def get(self, key: bytes) -> bytes | None:
        try:
            found: bytes | None = self._db.get(key)
        except Exception as error:
            raise _meant(error, self.folder) from None
        return found

    def get_many(self, wanted: list[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        if not wanted:
            return []
        try:
            found: list[bytes | None] = self._db.get(list(wanted))
        except Exception as error:
            raise _meant(error, self.folder) from None
        return found

    def pending(self, key: bytes) -> Pending | None:
        """A pending message. Raises StoreDamaged."""
        value = self.get(key)
        return None if value is None else self.read_pending(value)

    def read_pending(self, value: bytes) -> Pending:
        """A pending message as its bytes tell. Raises StoreDamaged."""
        try:
            return decode_pending(value)
        except Exception as error:
            raise StoreDamaged(f"{self.folder}: a message of the store cannot be read: {error}") from None

    def entry(self, cluster: int, name: str) -> NameEntry | None:
        """The entry of a name. Raises StoreDamaged."""
        value = self.get(keys.name_key(cluster, name))
        return None if value is None else self.read_entry(value)

    def read_entry(self, value: bytes) -> NameEntry:
        """An entry as its bytes tell. Raises StoreDamaged."""
        try:
            return decode_entry(value)
        except Exception as error:
            raise StoreDamaged(f"{self.folder}: a name of the store cannot be read: {error}") from None

    def has_left(self, cluster: int, name: str, now: int) -> bool:
        """True if a message of this name has left within the last day."""
        hour = now // keys.HOUR_MS
        hours = range(max(0, hour - GONE_HOURS), hour + 2)
        return any(
            value is not None for value in self.get_many([keys.gone_key(h, cluster, name) for h in hours])
        )

    def position(self, source: int) -> int | None:
        """The next offset to be read of a queue."""
        value = self.get(keys.position_key(source))
        return None if value is None else int.from_bytes(value, "big")

    # Numbers of texts.

    def number(self, text: str) -> int | None:
        return self._numbers.get(text)

    def text(self, number: int) -> str:
        return self._texts[number]

    def number_of(self, text: str, changes: Changes) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = max(self._texts, default=0) + 1
            changes.put(keys.number_key(number), text.encode())
            self._remember(number, text)
        return number

    def numbered(self, prefix: str) -> dict[int, str]:
        """The texts with a prefix, by number and without it."""
        size = len(prefix)
        return {n: text[size:] for n, text in self._texts.items() if text.startswith(prefix)}

    def _remember(self, number: int, text: str) -> None:
        self._numbers[text] = number
        self._texts[number] = text

    # Writing.

    def changes(self) -> Changes:
        return Changes(self._rocks.WriteBatch(raw_mode=True))

    def write(self, changes: Changes) -> None:
        """Writes changes, all or none. Raises StoreFull, after which the store has to be opened again."""
        if failpoints.armed:
            failpoints.hit("delay.write")
        for count, difference in changes.counts.items():
            if difference:
                number = self._count(count, difference)
                key = b"C" + count
                if number:
                    changes.put(key, number.to_bytes(8, "big"))
                else:
                    changes.delete(key)
        try:
            self._db.write(changes.batch)
        except Exception as error:
            raise StoreFull(f"{self.folder}: a write failed: {error}") from None

    def _count(self, count: bytes, difference: int) -> int:
        lane, hour = int.from_bytes(count[:4], "big"), int.from_bytes(count[4:], "big")
        hours = self.counts.setdefault(lane, {})
        number = hours[hour] = max(0, hours.get(hour, 0) + difference)
        if not number:
            del hours[hour]
            if not hours:
                del self.counts[lane]
        return number

    def sync(self) -> None:
        """Returns when everything written so far is on the disk. Raises StoreFull."""
        if failpoints.armed:
            failpoints.hit("delay.sync")
        try:
            self._db.flush_wal(True)
        except Exception as error:
            raise StoreFull(f"{self.folder}: a flush failed: {error}") from None

    # Room.

    def forget(self, now: int) -> None:
        """Names whose messages have left more than a day ago are unknown from now on."""
        changes = self.changes()
        changes.delete_range(keys.gone_hour(0), keys.gone_hour(max(0, now // keys.HOUR_MS - GONE_HOURS)))
        self.write(changes)

    def reclaim(self, ranges: list[tuple[bytes, bytes]]) -> None:
        """Gives the room of removed entries back. May take long; other threads may read and write."""
        for first, end in ranges:
            try:
                self._db.compact_range(first, end)
            except Exception as error:
                # The room comes back with the next compaction; the store itself is as good as before.
                log.info("a compaction ended early: %s", error)
                return

    @property
    def size_bytes(self) -> int:
        total = 0
        with os.scandir(self.folder / FOLDER) as found:
            for one in found:
                try:
                    total += one.stat().st_size
                except FileNotFoundError:
                    continue
        return total

    @property
    def pending_count(self) -> int:
        """Number of pending messages, replies and dead letters included."""
        return sum(sum(hours.values()) for hours in self.counts.values())

    def checkpoint(self, folder: Path) -> None:
        """A copy of the store at this moment, in a new folder. Files are linked where that is possible."""
        try:
            self._rocks.Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            raise StoreFull(f"no copy could be made in {folder}: {error}") from None


def _meant(error: Exception, folder: Path) -> Exception:
    """The error of the service that an error of RocksDB means."""
    text = str(error)
    lowered = text.lower()
    if "lock" in lowered and ("resource temporarily unavailable" in lowered or "lock hold" in lowered):
        return StoreLocked(f"{folder} is used by another process: stop that one first")
    if "no space" in lowered:
        return StoreFull(f"{folder}: {text}")
    if "permission denied" in lowered:
        return StoreFull(f"{folder}: {text}")
    if "corruption" in lowered or _ABSENT.search(text):
        return StoreDamaged(
            f"{folder} is damaged ({text}): restore a backup (`orbitmq delay restore`), or move the folder "
            "away to begin with an empty store"
        )
    return StoreDamaged(f"{folder} cannot be read: {text}")
