"""Assigns ranges of commit-log files to Spark tasks.

A file is cut about every `splitBytes`, at the first record behind: bytes that say of themselves, rightly,
that they are the record of that physical offset. The record names its queue and queue offset, and the unit
there has to confirm it: no message can carry what passes for a cut. A store that has no consume queues at all
is cut without, and a task that arrives at anything but the beginning of the next range fails.

The end of the log is determined here too, once: a live log grows while it is read, and the rows of a query
must not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orbitmq.protocol.records.message import (
    FIXED_BYTES,
    INNER_BATCH,
    TRANSACTION_PREPARED,
    BadRecord,
    StoredMessage,
)
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.queue_units import UNIT_BYTES, unpack_unit
from orbitmq.spark.errors import SparkSourceError
from orbitmq.spark.offline.log_ranges import LogFile, LogRange
from orbitmq.spark.offline.options import ONLY, OfflineOptions
from orbitmq.spark.offline.queues import CONSUME_QUEUE, holding
from orbitmq.spark.offline.records import (
    LOOKED_BEHIND_BYTES,
    end_of_log,
    is_zero,
    next_record,
    sound_record_at,
)
from orbitmq.spark.offline.storage import (
    SEGMENT_DIGITS,
    Folder,
    LocalFolder,
    View,
    expand,
    is_segment,
    open_folder,
)
from orbitmq.spark.read.values import nearest

COMMIT_LOG = "commitlog"

SEARCHED_BYTES = 16 << 20
"""Bytes behind a wanted cut in which a record is searched; without one there is no cut."""
_PROBED_BYTES = 64 << 10
_CONFIRMED_AMONG = 256
"""Records that are tried for one that its queue confirms."""
CLOCK_SLACK_MS = 3_600_000
"""By how much a broker's clock may have been set back: parts of the log are left out unread only if they are
that much before what is asked for, or behind it."""
_TAIL_TRIES = 5
_TAIL_PAUSE_SECONDS = 0.02
"""Time in s for a writer to finish its present record."""


class NotAStore(SparkSourceError):
    """There is no commit log at the path."""


@dataclass(slots=True, frozen=True)
class BadPlace:
    """Bytes of a commit log that are no sound record."""

    file: str
    physical_offset: int
    size_bytes: int
    reason: str


@dataclass(slots=True, frozen=True)
class Work:
    """Input of one task, and damage that was found while planning."""

    ranges: tuple[LogRange, ...]
    bad: tuple[tuple[BadPlace, str | None], ...] = ()


@dataclass(slots=True)
class Store:
    """A store: its root, and the folders of its commit log."""

    root: Folder
    log: list[tuple[Folder, str]]
    """(folder, name in it) of each commit-log folder."""
    broker_name: str | None = None

    def log_files(self) -> list[LogFile]:
        """The files of the commit log, in order; empty ones are left out. Raises SparkSourceError."""
        files = [
            LogFile(folder.path(name), segment, int(segment), size)
            for folder, name in self.log
            for segment, size in folder.files(name).items()
            if is_segment(segment) and size
        ]
        files.sort(key=lambda file: file.start)
        for one, following in pairwise(files):
            if one.start + one.size > following.start:
                raise SparkSourceError(
                    f"{one.folder}/{one.name} reaches into {following.name}: not one log's files"
                )
        return files


def open_stores(options: OfflineOptions) -> list[Store]:
    """The stores at the paths. Raises NotAStore, BadOption."""
    storage = dict(options.storage_options)
    urls = [url for path in options.paths for url in expand(path, storage)]
    if not urls:
        raise NotAStore(f"nothing is at {', '.join(options.paths)}")
    names: Sequence[str | None] = options.broker_names or (None,) * len(urls)
    if len(names) != len(urls):
        raise SparkSourceError(f"brokerName names {len(names)} brokers for {len(urls)} stores: {urls}")
    return [_open(url, name, options) for url, name in zip(urls, names, strict=True)]


def _open(url: str, broker_name: str | None, options: OfflineOptions) -> Store:
    storage = dict(options.storage_options)
    root = open_folder(url, storage)
    if options.commit_log_paths:
        log = [(open_folder(path, storage), "") for path in options.commit_log_paths]
    elif any(map(is_segment, root.files(""))):
        log = [(root, "")]
    else:
        log = [(root, COMMIT_LOG)]
    if not any(is_segment(name) for folder, below in log for name in folder.files(below)):
        where = ", ".join(folder.path(name) for folder, name in log)
        raise NotAStore(f"no store at {url}: there are no commit-log files in {where}")
    return Store(root, log, broker_name)


def plan(options: OfflineOptions) -> list[Work]:
    """The input of each task. Raises BadOption, SparkSourceError, OSError."""
    planned = [_plan_store(store, options) for store in open_stores(options)]
    ranges = [one for store_ranges, _ in planned for one in store_ranges]
    bad = tuple(one for _, store_bad in planned for one in store_bad)
    works = [Work(tuple(group)) for group in _grouped(ranges, _split_bytes(ranges, options))]
    if bad:
        works = [replace(works[0], bad=bad), *works[1:]] if works else [Work((), bad)]
    return works


def without_queues(options: OfflineOptions) -> list[str]:
    """Warnings about wanted topics that have no queue in any store.

    That is no error: messages of a topic that was deleted are in the log, and only there. Raises NotAStore,
    BadOption.
    """
    if not options.topics:
        return []
    known = {topic for store in open_stores(options) for topic in store.root.folders(CONSUME_QUEUE)}
    # A store that keeps its queues elsewhere has no list of topics.
    absent = sorted(options.topics - known) if known else []
    return [f"no queue of topic {topic} is in the store{nearest(topic, known)}" for topic in absent]


def _split_bytes(ranges: Sequence[LogRange], options: OfflineOptions) -> int:
    wanted = options.split_bytes or (1 << 62)
    if options.min_partitions > 1 and options.split_bytes:
        wanted = min(wanted, max(1, sum(map(len, ranges)) // options.min_partitions))
    return wanted


def _grouped(ranges: Sequence[LogRange], most_bytes: int) -> Iterator[list[LogRange]]:
    """Neighbours that are small together: a task per file would be too many where files are small."""
    group: list[LogRange] = []
    held = 0
    for one in ranges:
        if group and (held + len(one) > most_bytes or most_bytes >= 1 << 62):
            yield group
            group, held = [], 0
        group.append(one)
        held += len(one)
    if group:
        yield group


def _plan_store(
    store: Store, options: OfflineOptions
) -> tuple[list[LogRange], list[tuple[BadPlace, str | None]]]:
    storage = dict(options.storage_options)

    def view_of(file: LogFile) -> View:
        return open_folder(file.folder, storage).view(file.name)

    files = _begun(store.log_files(), view_of)
    bad = [
        (_gap(one, following), store.broker_name)
        for one, following in pairwise(files)
        if one.start + one.size < following.start
    ]
    split = options.split_bytes or (1 << 62)
    if options.min_partitions > 1 and options.split_bytes:
        split = min(split, max(1, sum(file.size for file in files) // options.min_partitions))
    confirm = _Confirmation(store.root)
    ranges: list[LogRange] = []
    for number, file in enumerate(files):
        try:
            with view_of(file) as view:
                ranges += _plan_file(store, file, view, number == len(files) - 1, split, confirm)
        except FileNotFoundError:
            continue  # retention took it before the plan was made
    if options.from_time_ms is not None or options.to_time_ms is not None:
        ranges = _of_the_time(ranges, options, view_of)
    names_topics = options.topics or options.pattern is not None
    if names_topics and options.bad_records != ONLY and isinstance(store.root, LocalFolder):
        ranges = holding(store.root, ranges, options.accepts, view_of)
    return ranges, bad


def _begun(files: list[LogFile], view_of: Callable[[LogFile], View]) -> list[LogFile]:
    """Without those at the end that nothing was written to: brokers make files ahead of their use."""
    for count in range(len(files), 0, -1):
        try:
            with view_of(files[count - 1]) as view:
                if not is_zero(view, 0, min(LOOKED_BEHIND_BYTES, view.size)):
                    return files[:count]
        except FileNotFoundError:
            continue
    return []


def _gap(one: LogFile, following: LogFile) -> BadPlace:
    end = one.start + one.size
    return BadPlace(
        f"{one.folder}/{one.name}",
        end,
        following.start - end,
        "the log has a gap: a file is missing or cut short",
    )


def _plan_file(
    store: Store, file: LogFile, view: View, is_last: bool, split: int, confirm: _Confirmation
) -> list[LogRange]:
    size = min(file.size, view.size)
    cuts = [0]
    target = split
    while target < size:
        cut = find_cut(view, file.start, max(target, cuts[-1] + 1), size, confirm)
        if cut is not None:
            cuts.append(cut)
            target = max(target, cut - cut % split)
        target += split
    end = size
    if is_last and file.is_local:
        end = _stable_end(view, file.start, cuts[-1])
    edges = [*cuts, max(end, cuts[-1])]
    return [
        LogRange(file, low, high, is_last and high == edges[-1], store.broker_name)
        for low, high in pairwise(edges)
        if low < high
    ]


def _stable_end(view: View, base: int, begin: int) -> int:
    """The end of a log that may be live: before a record that is being written, behind one that was torn."""
    end, sound = end_of_log(view, base, begin)
    tries = 0
    while not sound and tries < _TAIL_TRIES:
        time.sleep(_TAIL_PAUSE_SECONDS)
        if sound_record_at(view, base, end):
            # It was being written: look for the end once more, for as long as somebody writes.
            end, sound = end_of_log(view, base, end)
            tries = 0
        tries += 1
    return end if sound else view.size


def find_cut(view: View, base: int, target: int, size: int, confirm: _Confirmation) -> int | None:
    """The position of the first record at or behind `target`; None if none is near."""
    if is_zero(view, target, min(target + _PROBED_BYTES, size)):
        return None
    position, end = target, min(size, target + SEARCHED_BYTES)
    for _ in range(_CONFIRMED_AMONG):
        found = next_record(view, base, position, end)
        if found is None:
            break
        length = sound_record_at(view, base, found)
        buf, first = view.window(found, length)
        try:
            answer = confirm(decode_record(buf, found - first, False))
        except BadRecord:
            answer = False
        if answer:
            return found
        # A record that its queue denies stands in the body of another message: look on inside of it.
        position = found + (1 if answer is False else length)
    return None


class _Confirmation:
    """Asks the consume queue whether a record is where it says."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._files: dict[tuple[str, int], dict[str, int]] = {}
        self._has_queues = bool(root.folders(CONSUME_QUEUE))

    def __call__(self, record: StoredMessage) -> bool | None:
        """None where no unit says it: the queue is not there, or has not got there yet.

        Without any queues records are taken at their word.
        """
        if not self._has_queues:
            return True
        # A damaged record's topic is no path to follow.
        is_name = re.fullmatch(r"[%|a-zA-Z0-9_-]{1,255}", record.topic) is not None
        if not is_name or record.queue_offset < 0 or record.sys_flag & (TRANSACTION_PREPARED | INNER_BATCH):
            return None
        position = record.queue_offset * UNIT_BYTES
        folder = f"{CONSUME_QUEUE}/{record.topic}/{record.queue_id}"
        key = record.topic, record.queue_id
        if key not in self._files:
            self._files[key] = self._root.files(folder)
        starts = [int(name) for name in self._files[key] if is_segment(name) and int(name) <= position]
        if not starts:
            return None
        name = f"{max(starts):0{SEGMENT_DIGITS}d}"
        at = position - max(starts)
        try:
            raw = self._root.read(f"{folder}/{name}", at, at + UNIT_BYTES)
        except FileNotFoundError:
            return None
        unit = unpack_unit(raw) if len(raw) == UNIT_BYTES else None
        if unit is None or not unit.is_written:
            return None
        return unit.physical_offset == record.physical_offset and unit.size == record.size


def _of_the_time(
    ranges: list[LogRange], options: OfflineOptions, view_of: Callable[[LogFile], View]
) -> list[LogRange]:
    """Without ranges before what is asked for, or behind it, by the store times at their beginnings."""
    times = [_first_time(one, view_of) for one in ranges]
    kept = []
    for number, one in enumerate(ranges):
        following = times[number + 1] if number + 1 < len(times) else None
        begins, low, high = times[number], options.from_time_ms, options.to_time_ms
        if low is not None and following is not None and following < low - CLOCK_SLACK_MS:
            continue
        if high is not None and begins is not None and begins >= high + CLOCK_SLACK_MS:
            continue
        kept.append(one)
    return kept


def _first_time(one: LogRange, view_of: Callable[[LogFile], View]) -> int | None:
    try:
        with view_of(one.file) as view:
            if not sound_record_at(view, one.file.start, one.begin):
                return None
            buf, first = view.window(one.begin, FIXED_BYTES)
            at = one.begin - first
            stored = at + (68 if buf[at + 39] & 0x10 else 56)
            return int.from_bytes(buf[stored : stored + 8], "big", signed=True)
    except FileNotFoundError:
        return None
