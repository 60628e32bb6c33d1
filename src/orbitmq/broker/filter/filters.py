"""The SQL92 filters of groups: registered by heartbeats, kept in `config/consumerFilter.json`.

A filter belongs to a group and a topic and has the version of the subscription it came with. It is dead once
its group is gone or subscribes otherwise; a dead one is kept for a day, so that the bits that were made for
it stay valid for a group that comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from orbitmq.broker.filter.bloom import BitLayout, has_all
from orbitmq.broker.filter.options import FilterSettings
from orbitmq.broker.filter.sql92 import BadExpression, SqlFilter, compile_filter
from orbitmq.broker.filter.subscription import TYPE_SQL92, is_tag_type, not_supported, parse_failed, tag_codes
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.metrics import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterManager,
    FilterDataByTopic,
)
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.records.properties_cy import find_property
from orbitmq.protocol.schema.json_body import require_member
from orbitmq.store.queue.filtering import Accept, ExtensionUnit, MessageFilter

log = logging.getLogger(__name__)

MAX_FILTERS = 10_000
"""Filters that are kept; beyond them dead ones are forgotten, and without dead ones no group gets another."""
MAX_FILTERS_PER_TOPIC = 1_000
"""The same for one topic: with enableCalcFilterBitMap each of them is tried on each message."""
DEAD_BEFORE_START_MS = 30_000


class GroupFilter:
    """A group's filter on a topic."""

    __slots__ = ("_compiled", "_is_compiled", "data")

    def __init__(self, data: ConsumerFilterData, compiled: SqlFilter | None = None) -> None:
        self.data = data
        self._compiled = compiled
        self._is_compiled = compiled is not None

    @property
    def compiled(self) -> SqlFilter | None:
        """The expression; None for one that cannot be read, from a file: everything passes then."""
        if not self._is_compiled:
            # Not when the file is read: a start is not to wait for expressions that may never be used again.
            self._is_compiled = True
            try:
                self._compiled = compile_filter(self.data.expression)
            except BadExpression as error:
                data = self.data
                log.error("filter of group %s on %s: %s", data.consumer_group, data.topic, error)
        return self._compiled

    @property
    def is_dead(self) -> bool:
        return self.data.dead_time >= self.data.born_time

    @property
    def positions(self) -> list[int]:
        bloom = self.data.bloom_filter_data
        return [] if bloom is None or bloom.bit_pos is None else bloom.bit_pos


class Wanted(MessageFilter):
    """Messages for which an expression is true."""

    __slots__ = ("_born_ms", "_map_bytes", "_positions", "matches")

    def __init__(self, compiled: SqlFilter, registered: GroupFilter | None = None) -> None:
        self.matches = compiled.matches  # type: ignore[method-assign]
        bloom = None if registered is None else registered.data.bloom_filter_data
        self._positions: list[int] = [] if bloom is None or bloom.bit_pos is None else bloom.bit_pos
        self._map_bytes = 0 if bloom is None else bloom.bit_num // 8
        self._born_ms = 0 if registered is None else registered.data.born_time

    def by_extension(self, extension: ExtensionUnit) -> bool:
        """By the bits that were made for the filter, where they were made after it came."""
        bit_map = extension.bit_map
        if not self._positions or len(bit_map) != self._map_bytes or extension.store_time_ms <= self._born_ms:
            return True
        return has_all(bit_map, self._positions)


class WantedRetries(MessageFilter):
    """Messages of a retry topic that the group's filter on their first topic still wants."""

    __slots__ = ("_filters", "_group")

    def __init__(self, filters: FilterTable, group: str) -> None:
        self._filters = filters
        self._group = group

    def matches(self, properties: bytes) -> bool:
        topic = find_property(properties, b"RETRY_TOPIC")
        known = None if topic is None else self._filters.get(topic.decode("utf-8", "replace"), self._group)
        return known is None or known.compiled is None or known.compiled.matches(properties)


class FilterTable:
    """The filters by topic and group."""

    FILE = "consumerFilter.json"
    NAME = "filters"

    def __init__(self, settings: FilterSettings, dirty_tables: DirtyTables, now: int) -> None:
        self._settings = settings
        self._dirty_tables = dirty_tables
        self._started_ms = now
        self._by_topic: dict[str, dict[str, GroupFilter]] = {}
        self._layout = BitLayout(
            settings.max_error_rate_of_bloom_filter, settings.expect_consumer_num_use_filter
        )

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def get(self, topic: str, group: str) -> GroupFilter | None:
        return self._by_topic.get(topic, {}).get(group)

    def wanted(self, known: GroupFilter) -> MessageFilter | None:
        """The filter of a pull that uses a registered one; None for all messages."""
        return None if known.compiled is None else Wanted(known.compiled, known)

    def of_retries(self, topic: str) -> MessageFilter | None:
        """The filter for a reader of a topic that asks for all messages: None unless it is a retry topic
        that is filtered (filterSupportRetry).
        """
        if not self._settings.filter_support_retry or not topic.startswith(RETRY_PREFIX):
            return None
        return WantedRetries(self, topic[len(RETRY_PREFIX) :])

    def of_request(self, topic: str, expression: str | None, expression_type: str | None) -> Accept:
        """The filter of a request that brings its expression along.

        Raises Refused: SUBSCRIPTION_PARSE_FAILED, and SYSTEM_ERROR without enablePropertyFilter.
        """
        if is_tag_type(expression_type):
            return tag_codes(expression) or self.of_retries(topic)
        if not self._settings.enable_property_filter:
            raise not_supported(expression_type)
        if expression_type != TYPE_SQL92:
            raise parse_failed()
        try:
            return Wanted(compile_filter(expression or ""))
        except BadExpression:
            raise parse_failed() from None

    # Coming and going.

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now: int) -> None:
        """Takes over what a heartbeat of a group says. An expression that cannot be read is left out: its
        pulls hear it.
        """
        if not self._settings.enable_property_filter:
            return
        for subscription in subscriptions:
            if subscription.expression_type == TYPE_SQL92 and subscription.sub_string:
                self._register(group, subscription, now)

    def _register(self, group: str, subscription: SubscriptionData, now: int) -> None:
        known = self.get(subscription.topic, group)
        version = subscription.sub_version
        if known is not None:
            if version < known.data.client_version:
                return
            if version == known.data.client_version:
                if known.is_dead:
                    self._revive(known)
                return
            if self._is_same(known, subscription):
                known.data.client_version = version
                self._revive(known)
                return
            self._forget(known)
        try:
            compiled = compile_filter(subscription.sub_string)
        except BadExpression as error:
            log.warning("filter of group %s on %s: %s", group, subscription.topic, error)
            return
        if not self._has_place(subscription.topic, now):
            log.error("group %s gets no filter on %s: there are too many", group, subscription.topic)
            return
        data = ConsumerFilterData(
            consumer_group=group,
            topic=subscription.topic,
            expression=subscription.sub_string,
            expression_type=TYPE_SQL92,
            born_time=now,
            bloom_filter_data=self._bloom(group, subscription.topic),
            client_version=version,
        )
        self._by_topic.setdefault(subscription.topic, {})[group] = GroupFilter(data, compiled)
        self._mark()

    def _is_same(self, known: GroupFilter, subscription: SubscriptionData) -> bool:
        data = known.data
        return (
            data.expression == subscription.sub_string
            and data.expression_type == subscription.expression_type
            and data.bloom_filter_data == self._bloom(data.consumer_group, data.topic)
        )

    def _bloom(self, group: str, topic: str) -> BloomFilterData:
        return BloomFilterData(self._layout.positions(group, topic), self._layout.bit_count)

    def _revive(self, known: GroupFilter) -> None:
        known.data.dead_time = 0
        self._mark()

    def _has_place(self, topic: str, now: int) -> bool:
        """True if there is a place for one more, if need be that of a dead one."""
        crowded = len(self._by_topic.get(topic, ())) >= MAX_FILTERS_PER_TOPIC
        if crowded or len(self) >= MAX_FILTERS:
            candidates = [
                known for known in self if known.is_dead and (known.data.topic == topic or not crowded)
            ]
            if not candidates:
                return False
            self._forget(min(candidates, key=lambda known: known.data.dead_time))
        return True

    def __iter__(self) -> Iterator[GroupFilter]:
        for groups in self._by_topic.values():
            yield from groups.values()

    def tend(self, subscription_of: Callable[[str, str], SubscriptionData | None], now: int) -> None:
        """Notes whose group is gone, and forgets those that are dead for too long. Call every 10 s. A filter
        whose member has gone makes room for that of the group's present members.

        `subscription_of` gives the present subscription of a group to a topic.
        """
        for known in list(self):
            data = known.data
            if not known.is_dead:
                subscription = subscription_of(data.consumer_group, data.topic)
                if subscription is None or is_tag_type(subscription.expression_type):
                    data.dead_time = max(now, data.born_time)
                    self._mark()
                elif not self._is_same(known, subscription):
                    self._forget(known)
                    self._register(data.consumer_group, subscription, now)
            elif now - data.dead_time >= self._settings.filter_data_clean_time_span:
                self._forget(known)

    def _forget(self, known: GroupFilter) -> None:
        groups = self._by_topic[known.data.topic]
        del groups[known.data.consumer_group]
        if not groups:
            del self._by_topic[known.data.topic]
        self._mark()

    def _mark(self) -> None:
        self._dirty_tables.mark(self.NAME, soon=False)

    # Bits of messages.

    def bit_map(self, topic: str, properties: bytes) -> bytes:
        """The bits of filters of a topic that a message with these properties passes; empty if not kept."""
        groups = self._by_topic.get(topic)
        if not groups or not self._settings.enable_calc_filter_bit_map:
            return b""
        return self._layout.bit_map(
            known.positions
            for known in groups.values()
            if known.compiled is not None and known.compiled.matches(properties)
        )

    # The file.

    def to_body(self) -> ConsumerFilterManager:
        topics = {}
        for topic, groups in self._by_topic.items():
            rows = {}
            for group, known in groups.items():
                known.data.dead = known.is_dead
                rows[group] = known.data
            topics[topic] = FilterDataByTopic(topic, rows)
        return ConsumerFilterManager(topics)

    def snapshot(self) -> Snapshot:
        """The content of `consumerFilter.json`."""
        text = self.to_body().to_pretty_json()
        return lambda: text

    def load_text(self, text: str) -> None:
        """Takes over the content of `consumerFilter.json`. Raises MalformedJson.

        Where the bits of one filter were made for another layout the whole file counts for nothing, as the
        bits of the messages do: groups come back with their next heartbeat.
        """
        require_member(text, "filterDataByTopic")
        loaded: dict[str, dict[str, GroupFilter]] = {}
        count = 0
        for topic, of_topic in ConsumerFilterManager.from_json(text).filter_data_by_topic.items():
            for group, data in of_topic.group_filter_data.items():
                if not self._fits(data):
                    log.warning("%s was made for other options of its bits: not used", self.FILE)
                    return
                if data.dead_time == 0:
                    data.dead_time = max(data.born_time, self._started_ms - DEAD_BEFORE_START_MS)
                if count < MAX_FILTERS:
                    data.topic, data.consumer_group = topic, group
                    loaded.setdefault(topic, {})[group] = GroupFilter(data)
                    count += 1
        self._by_topic = loaded

    def _fits(self, data: ConsumerFilterData) -> bool:
        bloom = data.bloom_filter_data
        return (
            bloom is not None
            and bloom.bit_num == self._layout.bit_count
            and len(bloom.bit_pos or ()) == self._layout.positions_per_group
            and all(0 <= position < bloom.bit_num for position in bloom.bit_pos or ())
        )
