"""Messages of a store as people and programs see them: one, or a list with a cursor."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.intake import CLUSTER_PREFIX
from orbitmq.delay_service.rules.lanes import PREFIX
from orbitmq.delay_service.rules.times import rfc_3339
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Kind, Pending
from orbitmq.delay_service.store.store import DelayStore

MOST = 1000
"""Messages of one answer."""
MOST_LOOKED_AT = 2_000
"""Entries of one page, for which the event loop waits: if few of them fit, the page is short."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Messages that are meant."""

    topic: str = ""
    """`topic` or `cluster/topic` of the target; empty: all."""
    cluster: str = ""
    """Cluster they came from; empty: all."""
    since: int = 0
    """First due time (ms)."""
    until: int = keys.LAST_DUE
    """Last due time (ms)."""
    prefix: str = ""
    """Beginning of the name."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    messages: list[tuple[bytes, Pending]]
    cursor: str
    """Place to continue at; empty at the end."""


def cluster_of(store: DelayStore, pending: Pending) -> str:
    """The cluster that a message came from."""
    return store.text(pending.cluster).removeprefix(CLUSTER_PREFIX)


def lanes_of(store: DelayStore, topic: str) -> list[int]:
    """The lanes of targets that are meant, in the order of their numbers."""
    return sorted(
        number
        for number, target in store.numbered(PREFIX).items()
        if not topic or topic in (target, target.partition("/")[2])
    )


def list_messages(store: DelayStore, wanted: Filter, limit: int, cursor: str = "") -> Page:
    """Messages by name if the filter has a beginning of names; else by target, and then by time.

    Raises NotSchedulable for a cursor that is none.
    """
    found: list[tuple[bytes, Pending]] = []
    start = _read_cursor(cursor, b"N" if wanted.prefix else b"P")
    entries = (_by_name if wanted.prefix else _by_time)(store, wanted, start)
    for looked_at, (place, key, pending) in enumerate(entries):
        if len(found) >= limit or looked_at >= MOST_LOOKED_AT:
            return Page(found, _cursor(place))
        if pending is not None:
            found.append((key, pending))
    return Page(found, "")


Entries = Iterator[tuple[bytes, bytes, Pending | None]]
"""The place of an entry, its message's key, and the message; None if it does not fit."""


def _by_name(store: DelayStore, wanted: Filter, start: bytes) -> Entries:
    lanes = frozenset(lanes_of(store, wanted.topic))
    for number, cluster in sorted(store.numbered(CLUSTER_PREFIX).items()):
        if wanted.cluster not in ("", cluster):
            continue
        first = keys.name_key(number, wanted.prefix)
        for place, value in store.items(max(start, first), first + b"\xff"):  # no text has this byte
            entry = store.read_entry(value)
            due = keys.due_of(entry.key)
            fits = max(0, wanted.since) <= due <= wanted.until and keys.lane_of(entry.key) in lanes
            yield place, entry.key, store.pending(entry.key) if fits and not entry.ending else None


def _by_time(store: DelayStore, wanted: Filter, start: bytes) -> Entries:
    for key, value in _entries(store, wanted, start):
        pending = store.read_pending(value) if key[-1] == Kind.MESSAGE else None
        if pending is not None and wanted.cluster not in ("", cluster_of(store, pending)):
            pending = None
        yield key, key, pending


def _entries(store: DelayStore, wanted: Filter, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    for lane in lanes_of(store, wanted.topic):
        first = max(start, keys.pending_key(lane, max(0, wanted.since), 0, 0))
        end = keys.lane_end(lane)
        if wanted.until < keys.LAST_DUE:
            end = keys.pending_key(lane, max(0, wanted.until) + 1, 0, 0)
        if first < end:
            yield from store.items(first, end)


def _cursor(key: bytes) -> str:
    return urlsafe_b64encode(key).decode()


def _read_cursor(text: str, kind: bytes) -> bytes:
    if not text:
        return b""
    try:
        key = urlsafe_b64decode(text.encode())
    except (binascii.Error, ValueError):
        key = b""
    if key[:1] != kind or (kind == b"P" and len(key) != keys.KEY_BYTES):
        raise NotSchedulable("cursor: it is none that an answer to such a filter has given")
    return key


def find_message(store: DelayStore, cluster: str, name: str) -> tuple[bytes, Pending] | None:
    """The pending message of a name."""
    number = store.number(CLUSTER_PREFIX + cluster)
    entry = store.entry(number, name) if number is not None else None
    if entry is None or entry.ending:
        return None
    pending = store.pending(entry.key)
    return None if pending is None else (entry.key, pending)


def as_json(store: DelayStore, key: bytes, pending: Pending, *, whole: bool = False) -> dict[str, Any]:
    """A message as JSON; `whole` with its body."""
    content = pending.content
    shown: dict[str, Any] = {
        "id": pending.name,
        "cluster": cluster_of(store, pending),
        "target": store.text(keys.lane_of(key)).removeprefix(PREFIX),
        "due": pending.due,
        "due_at": rfc_3339(pending.due),
        "occurrence": pending.occurrence,
        "size": len(content.body or b""),
    }
    if pending.expires >= 0:
        shown["expires"] = pending.expires
    if pending.owner:
        shown["owner"] = pending.owner
    if pending.repeat is not None:
        repeat = pending.repeat
        shown["repeat"] = {
            name: value
            for name, value in (
                ("every_ms", repeat.every_ms),
                ("factor", repeat.factor if repeat.factor != 1 else 0),
                ("times", repeat.times),
                ("until", repeat.until if repeat.until >= 0 else 0),
                ("cron", repeat.cron),
                ("zone", repeat.zone),
                ("catch_up", repeat.catch_up),
            )
            if value
        }
    if whole:
        shown.update(_content_as_json(pending))
    return shown


def _content_as_json(pending: Pending) -> dict[str, Any]:
    content = pending.content
    if content.headers is None:
        shown: dict[str, Any] = {"properties": content.properties or {}}
    else:
        shown = {
            "headers": [
                [name, None if data is None else b64encode(data).decode()] for name, data in content.headers
            ],
            "key_base64": None if content.key is None else b64encode(content.key).decode(),
        }
    shown["body_base64"] = None if content.body is None else b64encode(content.body).decode()
    return shown


def read_body(given: dict[str, Any]) -> bytes:
    """The body in `body` or `body_base64`. Raises NotSchedulable."""
    if "body_base64" in given:
        try:
            return b64decode(str(given["body_base64"]), validate=True)
        except (binascii.Error, ValueError):
            raise NotSchedulable("body_base64: it is no base64") from None
    return str(given.get("body", "")).encode()
