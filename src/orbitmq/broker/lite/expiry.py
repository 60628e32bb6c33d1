"""The end of lite topics: they expire when nothing comes any more, and go with their parent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import InitVar, dataclass

from orbitmq.broker.lite.groups import expiration_minutes
from orbitmq.broker.lite.options import LiteOptions
from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.lite.subscriptions import LiteSubscriptions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.protocol.lite_topics import bound_topic, lite_parts, lite_queue
from orbitmq.protocol.names import LITE_PREFIX
from orbitmq.store import MessageStore

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Lite topics that are looked at before others have a turn: a ms or so."""
EMPTY_ROUNDS = 5
"""A lite topic without any message is gone after more rounds than this."""
MINUTE_MS = 60_000


@dataclass(eq=False, repr=False)
class LiteExpiry:
    """Looks at all lite topics now and then."""

    _settings: LiteOptions
    _topics: TopicTable
    _groups: GroupTable
    _offsets: OffsetTable
    _subscriptions: LiteSubscriptions
    _pops: LitePops
    _store: MessageStore
    now: InitVar[int]

    def __post_init__(self, now: int) -> None:
        self._boot_ms = now
        self._round: Iterator[str] | None = None
        self._newest: dict[str, tuple[int, int]] = {}
        """The end of each lite topic that may expire, and when its newest message came: read from the disk
        once."""
        self._empty: dict[str, int] = {}
        """Number of rounds in which a lite topic had no message."""

    def tick(self, now: int) -> bool:
        """Begins or continues a round. True if there is more to do at once."""
        if now - self._boot_ms < self._settings.min_lite_t_tl:
            return False
        if self._round is None:
            self._round = iter(self._store.lmqs(LITE_PREFIX))
        for _ in range(AT_ONCE):
            lmq = next(self._round, None)
            if lmq is None:
                self._round = None
                return False
            if self._is_expired(lmq, now):
                self._delete(lmq, now)
        return True

    def _is_expired(self, lmq: str, now: int) -> bool:
        parts = lite_parts(lmq)
        topic = None if parts is None else self._topics.get(parts[0])
        if topic is None:
            return False
        end = self._store.max_offset(lmq, 0)
        minutes = expiration_minutes(topic)
        if end > 0 and minutes < 0:
            self._newest.pop(lmq, None)
            return False
        came_ms = self._came_ms(lmq, end, now) if end > 0 else -1
        if came_ms <= 0:
            self._empty[lmq] = self._empty.get(lmq, 0) + 1
            return self._empty[lmq] > EMPTY_ROUNDS
        self._empty.pop(lmq, None)
        age_ms = now - came_ms
        return age_ms > self._settings.min_lite_t_tl and age_ms > minutes * MINUTE_MS

    def _came_ms(self, lmq: str, end: int, now: int) -> int:
        """When the newest message came, -1 if it is not there any more."""
        known = self._newest.get(lmq)
        if known is not None and known[0] == end:
            return known[1]
        # One that has grown since the round before is as good as new: the disk is not asked for more.
        came_ms = now if known is not None else self._store.lookup.store_time(lmq, 0, end - 1)
        self._newest[lmq] = (end, came_ms)
        return came_ms

    def _delete(self, lmq: str, now: int) -> None:
        """Deletes a lite topic, with all that groups know of it."""
        parts = lite_parts(lmq)
        for name, config in self._groups.by_name.items():
            if parts is not None and bound_topic(config) == parts[0]:
                self._offsets.remove_group_topic(name, lmq, now)
                self._offsets.pop_reset(name, lmq, 0)
                self._pops.order.clear((lmq, name, 0))
        self._subscriptions.forget_queue(lmq)
        self._newest.pop(lmq, None)
        self._empty.pop(lmq, None)
        self._store.structures.delete_queues(lmq)
        log.info("lite topic %s is gone", lmq)

    def delete_all_of(self, topic: str, now: int, before: int | None = None) -> None:
        """Deletes the lite topics of a parent that is deleted; those that have begun at the physical offset
        `before` or behind it stay.
        """
        store = self._store
        for lmq in store.lmqs(lite_queue(topic, "")) if store.lmq_count else ():
            first = store.physical_offset_of(lmq, 0, store.min_offset(lmq, 0))
            if before is None or first is None or first[0] < before:
                self._delete(lmq, now)
