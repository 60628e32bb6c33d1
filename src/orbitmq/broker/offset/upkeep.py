"""Consequences of where groups stand, looked at now and then: readers that are too far behind lose the right
to consume, and positions that are no longer needed go.

Both go a slice at a step, for a broker may have a hundred thousand positions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.offset.offsets import OffsetTable, Queues
from orbitmq.broker.offset.options import UpkeepOptions
from orbitmq.protocol.names import SYSTEM_GROUP_PREFIX
from orbitmq.store import MessageStore

SLOW_READERS_INTERVAL_MS = 3 * 60_000
EXPIRED_OFFSETS_INTERVAL_MS = 60 * 60_000
EXPIRED_OFFSETS_FIRST_MS = 10 * 60_000
"""Clients have come back by then from a restart of the broker."""
PAIRS_AT_ONCE = 64
"""Groups with a topic that are looked at before others have a turn: a ms or so."""

log = logging.getLogger(__name__)


class _Rounds:
    """A look at all pairs of a group and a topic, some at a step."""

    def __init__(self, settings: UpkeepOptions, offsets: OffsetTable, store: MessageStore) -> None:
        self._settings = settings
        self._offsets = offsets
        self._store = store
        self._round: Iterator[tuple[str, str]] | None = None
        self._before: dict[tuple[str, str], Queues] = {}
        """Positions that were noted in the round before."""
        self._seen: dict[tuple[str, str], Queues] = {}

    def _is_wanted(self) -> bool:
        raise NotImplementedError

    def _pairs(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def _look(self, group: str, topic: str, now: int) -> None:
        raise NotImplementedError

    def tick(self, now: int) -> bool:
        """Begins or continues a round. True if there is more to do at once."""
        if not self._is_wanted():
            self._round = None
            self._before, self._seen = {}, {}
            return False
        if self._round is None:
            self._before, self._seen = self._seen, {}
            self._round = iter(self._pairs())
        for _ in range(PAIRS_AT_ONCE):
            pair = next(self._round, None)
            if pair is None:
                self._round = None
                return False
            self._look(*pair, now)
        return True


class SlowReaders(_Rounds):
    """The groups that read too far behind, which makes the disk turn for everybody.

    A reader is a group that has got on since the round before: who only stands still costs nothing.
    """

    def __init__(
        self, settings: UpkeepOptions, groups: GroupTable, offsets: OffsetTable, store: MessageStore
    ) -> None:
        super().__init__(settings, offsets, store)
        self._groups = groups

    def _is_wanted(self) -> bool:
        return self._settings.disable_consume_if_consumer_read_slowly

    def _pairs(self) -> list[tuple[str, str]]:
        return self._offsets.read_pairs()

    def _look(self, group: str, topic: str, now: int) -> None:
        positions = self._offsets.positions(group, topic)
        self._seen[group, topic] = positions
        before = self._before.get((group, topic))
        config = self._groups.get(group)
        if before is None or before == positions or config is None or not config.consume_enable:
            return
        for queue_id, queue_offset in positions.items():
            if before.get(queue_id, -1) == queue_offset:
                continue
            behind = self._behind(topic, queue_id, queue_offset)
            if behind > self._settings.consumer_fallbehind_threshold:
                log.warning(
                    "[PROTECT_BROKER] the consumer[%s] consume slowly, %d bytes, disable it: queue %d of %s",
                    group,
                    behind,
                    queue_id,
                    topic,
                )
                self._groups.put(replace(config, consume_enable=False), now)
                return

    def _behind(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Bytes from the next message of a reader to the end of the log; 0 for who has read all."""
        store = self._store
        queue_offset = max(queue_offset, store.min_offset(topic, queue_id))
        if queue_offset >= store.max_offset(topic, queue_id):
            return 0
        unit = store.physical_offset_of(topic, queue_id, queue_offset)
        return 0 if unit is None else max(0, store.max_physical - unit[0])


class ExpiredOffsets(_Rounds):
    """The offsets of groups that have left a topic, and all of whose messages since then are gone."""

    def __init__(
        self, settings: UpkeepOptions, clients: ClientTable, offsets: OffsetTable, store: MessageStore
    ) -> None:
        super().__init__(settings, offsets, store)
        self._clients = clients

    def _is_wanted(self) -> bool:
        return self._settings.enable_clean_expired_offset

    def _pairs(self) -> list[tuple[str, str]]:
        return self._offsets.pairs()

    def _look(self, group: str, topic: str, now: int) -> None:
        # Offsets of broadcasting groups ("group@broadcast") are of members that are unknown here.
        if group.startswith(SYSTEM_GROUP_PREFIX) or "@" in group:
            return
        if self._clients.subscription(group, topic) is not None:
            return
        stored = self._offsets.queues(group, topic)
        if not stored or any(
            queue_offset > max(0, self._store.min_offset(topic, queue_id))
            or self._offsets.has_reset(group, topic, queue_id)
            for queue_id, queue_offset in stored.items()
        ):
            return
        # A client that pulls or pops without a heartbeat is known by its progress alone.
        positions = self._offsets.positions(group, topic)
        if self._before.get((group, topic)) != positions:
            self._seen[group, topic] = positions
            return
        log.warning("remove topic offset, %s@%s: %s", topic, group, stored)
        self._offsets.remove_group_topic(group, topic, now)
