"""The store of a stopped Chronos of DDMQ, read into a store of this service.

Its keys are ids, which begin with the second, so their order is that of times. A tombstone has the second of
its victim and type 0; a long message is cut into segments whose keys are the id with a number appended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.delay_service.errors import ExtraMissing, NotSchedulable, StoreDamaged, StoreError
from orbitmq.delay_service.rules import ddmq
from orbitmq.delay_service.rules.intake import Intake, Queue, SourceMessage

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_KEY = re.compile(rf"(\d{{10}}-\d-\d+-\d+-\d+-\d+-.*?{_UUID})(?:-(\d+)-(\d+))?")
PART = 1000
FIRST_SEGMENT = 10_000


class NoChronos(StoreError):
    """A folder holds no store of Chronos, or the seek file no second."""


@dataclass(slots=True)
class Imported:
    """Counts of an import."""

    messages: int = 0
    cancelled: int = 0
    delivered: int = 0
    """Before the seek position: Chronos has delivered them."""
    refused: int = 0
    reasons: list[str] | None = None


def read_seek(path: Path) -> int:
    """The second up to which Chronos has delivered. Raises NoChronos."""
    try:
        text = path.read_text().strip()
        return int(text)
    except (OSError, ValueError):
        raise NoChronos(f"{path} is no seek file: it holds one number, a second since 1970") from None


def _entries(folder: Path) -> Iterator[tuple[str, bytes]]:
    try:
        import rocksdict
    except ModuleNotFoundError:
        raise ExtraMissing("rocksdict", "delay") from None
    if not (folder / "CURRENT").exists():
        raise NoChronos(f"{folder} holds no RocksDB (no file CURRENT)")
    try:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(False)
        db = rocksdict.Rdict(str(folder), options, access_type=rocksdict.AccessType.read_only(False))
    except Exception as error:
        raise StoreDamaged(f"{folder} cannot be read: {error}") from None
    try:
        found = db.iter(rocksdict.ReadOptions())
        found.seek_to_first()
        while found.valid():
            yield bytes(found.key()).decode("ascii", "replace"), bytes(found.value())
            found.next()
        try:
            found.status()
        except Exception as error:
            raise StoreDamaged(f"{folder} cannot be read: {error}") from None
    finally:
        db.close()


def read_chronos(folder: Path, seek: int, counts: Imported) -> Iterator[tuple[str, bytes]]:
    """Ids and JSON of messages that are not delivered yet, without those that tombstones name."""
    victims: set[str] = set()
    second = -1
    segments: dict[str, dict[int, bytes]] = {}
    for key, value in _entries(folder):
        match = _KEY.fullmatch(key)
        if match is None:
            counts.refused += 1
            continue
        id = ddmq.parse_id(match[1])
        if id.second <= seek:
            counts.delivered += id.type != ddmq.TOMBSTONE
            continue
        if id.second != second:
            if segments:
                counts.refused += len(segments)
            second, victims, segments = id.second, set(), {}
        if id.type == ddmq.TOMBSTONE:
            victims.add(_victim(value))
            continue
        if match[1] in victims:
            counts.cancelled += match[2] is None or int(match[3]) == FIRST_SEGMENT
            continue
        if match[2] is None:
            yield match[1], value
            continue
        parts = segments.setdefault(match[1], {})
        parts[int(match[3])] = value
        if len(parts) == int(match[2]):
            del segments[match[1]]
            yield match[1], b"".join(parts[n] for n in sorted(parts))
    counts.refused += len(segments)


def _victim(value: bytes) -> str:
    """The id that a tombstone names: as JSON, in old stores as the bare id."""
    text = value.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return text
    try:
        return str(json.loads(text).get("uniqDelayMsgId", ""))
    except ValueError:
        return ""


def import_chronos(
    intake: Intake, cluster: str, messages: Iterator[tuple[str, bytes]], counts: Imported, now: int
) -> None:
    """Takes messages in, as if a queue of their own had brought them. An import may be repeated."""
    queue = Queue(cluster, "chronos", "import")
    part: list[SourceMessage] = []
    offset = 0
    for text, value in messages:
        try:
            part.append(_message(offset, text, value))
            counts.messages += 1
        except NotSchedulable as error:
            counts.refused += 1
            if counts.reasons is None:
                counts.reasons = []
            if len(counts.reasons) < 20:
                counts.reasons.append(f"{text}: {error}")
        offset += 1
        if len(part) >= PART:
            intake.take(queue, part, offset, now)
            part = []
    intake.take(queue, part, offset, now)


def _message(offset: int, text: str, value: bytes) -> SourceMessage:
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        raise NotSchedulable("the value is no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("a"), str):
        raise NotSchedulable("the value has no target")
    content = ddmq.content_of(found.get("b"), found.get("d"), found.get("e"))
    order = ddmq.schedule_of(ddmq.parse_id(text), found["a"])
    return SourceMessage(offset, None, {}, content, order=order, ddmq=text)
