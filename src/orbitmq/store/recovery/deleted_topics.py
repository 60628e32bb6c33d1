"""The file `config/deletedTopics.json`: topics that were deleted while the log still holds messages of them.

The broker writes it. The store reads it at a start, for a topic of that name may have been made since: the
records of the old one come before the deletion in the log, and get no units in queues of the new one.

A deletion counts only for the log in which it was noted, which the checksum of its last record shows. A log
that was cut since may hold messages of the new topic where it ended then: they are acknowledged, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.schema.json_body import JsonBody, Long, require_member
from orbitmq.store.config_files import read_text
from orbitmq.store.files import Disk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.sound_records import last_record_before, record_checksum

FILE_NAME = "deletedTopics.json"


@dataclass(slots=True)
class Deletion(JsonBody):
    """The end of a topic."""

    log_end: Long = 0
    """The log ended there: what stands before it was for that topic."""
    time_ms: Long = 0
    last_record: Long = -1
    """Physical offset of the last record of the log then, and the checksum of it; -1 if there was none."""
    checksum: Long = 0


@dataclass(slots=True)
class DeletionsBody(JsonBody):
    """The content of the file."""

    deletions: dict[str, Deletion] = field(default_factory=dict)


def read_deletions(text: str) -> dict[str, Deletion]:
    """The content of the file, by topic. Raises MalformedJson."""
    require_member(text, "deletions")
    return DeletionsBody.from_json(text).deletions


class LogEnd(NamedTuple):
    """An end of a log, and the record by which it is known later; see `Deletion`."""

    physical_offset: int
    last_record: int = -1
    checksum: int = 0


def log_end_at(commit_log: CommitLog, physical_offset: int, newest: int) -> LogEnd:
    """The end of the log when it went to a physical offset; `newest` is the last record that it has now."""
    last = newest
    if physical_offset < commit_log.max_physical:
        found = last_record_before(commit_log, physical_offset)
        last = -1 if found is None else found[0]
    return LogEnd(physical_offset, last, record_checksum(commit_log, last) or 0)


def of_this_log(deletions: Mapping[str, Deletion], commit_log: CommitLog) -> dict[str, Deletion]:
    """The deletions that were noted in this very log, and of which it holds something. They count up to the
    end of the last record of then: where the segment ended behind it, other messages may stand now.
    """
    checksums: dict[int, int | None] = {}
    found = {}
    for topic, deletion in deletions.items():
        place = deletion.last_record
        if deletion.log_end <= commit_log.min_physical:
            continue
        if place not in checksums:
            checksums[place] = record_checksum(commit_log, place)
        if checksums[place] is not None and checksums[place] == deletion.checksum:
            end = place + int.from_bytes(commit_log.read(place, 4), "big")
            found[topic] = replace(deletion, log_end=min(deletion.log_end, end))
    return found


def load_deletions(disk: Disk, root: Path, commit_log: CommitLog) -> dict[str, int]:
    """For each deleted topic the physical offset before which the log holds nothing but its messages; those
    that count for this log. A file that cannot be read counts for none: the broker refuses it later.
    """
    read: list[dict[str, Deletion]] = []

    def is_usable(text: str) -> bool:
        try:
            read.append(read_deletions(text))
        except Malformed:
            return False
        return True

    found = read_text(root / "config" / FILE_NAME, is_usable, disk)
    if found.text is None or not read:
        return {}
    return {topic: one.log_end for topic, one in of_this_log(read[-1], commit_log).items()}
