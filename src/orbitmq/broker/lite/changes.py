"""Changes of what clients subscribe to, and their effect on others: events, evictions, offsets."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.lite.events import LiteEvents
from orbitmq.broker.lite.groups import is_exclusive, is_wildcard, resets
from orbitmq.broker.lite.options import LiteOptions
from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.lite.subscriptions import LiteClient, LiteSubscriptions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.lite import LiteAction, LiteSubscriptionEntry, OffsetOption, OffsetOptionType
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import is_lite_topic_name, lite_parts, lite_queue
from orbitmq.protocol.requests.lite import NotifyUnsubscribeLite
from orbitmq.store import MessageStore


@dataclass(eq=False, repr=False)
class SubscriptionChanges:
    """Applies changes, and drops clients that are gone."""

    _settings: LiteOptions
    _groups: GroupTable
    _offsets: OffsetTable
    _subscriptions: LiteSubscriptions
    _events: LiteEvents
    _pops: LitePops
    _outbox: Outbox
    _store: MessageStore

    def apply(self, entry: LiteSubscriptionEntry, connection_id: int, now: int) -> None:
        """Applies one change. Raises Refused."""
        names = [name for name in entry.lite_topic_set or () if is_lite_topic_name(name)]
        lmqs = [lite_queue(entry.topic, name) for name in names]
        match entry.action:
            case LiteAction.PARTIAL_ADD:
                self._add(entry, lmqs, connection_id, now)
            case LiteAction.PARTIAL_REMOVE:
                self._remove(entry, lmqs, now)
            case LiteAction.COMPLETE_ADD:
                self._replace(entry, set(lmqs), connection_id, now)
            case LiteAction.COMPLETE_REMOVE:
                self.drop(entry.client_id, now)
            case None:
                raise Refused(
                    ResponseCode.ILLEGAL_OPERATION,
                    f"the action of a subscription is one of {', '.join(LiteAction.__members__)}",
                )

    def _group(self, name: str, now: int) -> SubscriptionGroupConfig:
        group = self._groups.find(name, now)
        if group is None or not group.consume_enable:
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION,
                "java.lang.IllegalStateException: Consumer group is not allowed to consume.",
            )
        return group

    def _add(self, entry: LiteSubscriptionEntry, lmqs: list[str], connection_id: int, now: int) -> None:
        group = self._group(entry.group, now)
        if is_wildcard(group):
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION,
                "java.lang.IllegalStateException: subscribe lite operation is not supported for this group",
            )
        self._check_quota()
        client = self._subscriptions.join(entry.client_id, entry.group, entry.topic, connection_id, now)
        for lmq in lmqs:
            client.taken_over.discard(lmq)
            if is_exclusive(group):
                self._evict_others(client, group, lmq, now)
            if entry.offset_option is not None and lmq not in client.lmqs:
                self._move(entry.group, lmq, entry.offset_option, now)
            self._register(client, lmq, now)

    def _check_quota(self) -> None:
        most = self._settings.max_lite_subscription_count
        if self._subscriptions.count >= most:
            raise Refused(
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                "org.apache.rocketmq.broker.lite.LiteQuotaException: "
                f"lite subscription quota exceeded {most}",
            )

    def _register(self, client: LiteClient, lmq: str, now: int) -> None:
        if self._subscriptions.add(client, lmq) and self._store.max_offset(lmq, 0) > 0:
            self._events.tell(lmq, now, client.group)

    def _evict_others(self, client: LiteClient, group: SubscriptionGroupConfig, lmq: str, now: int) -> None:
        """Takes a queue from the member of an exclusive group that has it."""
        for other in list(self._subscriptions.of(lmq, client.group)):
            if other is client:
                continue
            self._subscriptions.remove(other, lmq)
            self._events.forget(other, lmq)
            other.taken_over.add(lmq)
            self._notify(other, lmq)
            if resets(group, "exclusive"):
                self._begin_at(client.group, lmq, 0, now)

    def _notify(self, client: LiteClient, lmq: str) -> None:
        """Tells a client that it has lost a queue."""
        parts = lite_parts(lmq)
        if parts is not None:
            self._outbox.push(
                client.connection_id, NotifyUnsubscribeLite(parts[1], client.group, client.client_id)
            )

    def _move(self, group: str, lmq: str, option: OffsetOption, now: int) -> None:
        """Sends a group to where a client wants to begin."""
        committed = self._offsets.get(group, lmq, 0)
        match option.type:
            case OffsetOptionType.POLICY if option.value == 1:
                target = 0
            case OffsetOptionType.POLICY if option.value == 2:
                target = self._store.max_offset(lmq, 0)
            case OffsetOptionType.OFFSET:
                target = max(0, option.value)
            case OffsetOptionType.TAIL_N if committed >= 0:
                target = max(0, committed - option.value)
            case _:
                return
        if target != committed:
            self._begin_at(group, lmq, target, now)

    def _begin_at(self, group: str, lmq: str, queue_offset: int, now: int) -> None:
        self._offsets.reset(group, lmq, 0, queue_offset, now)
        self._pops.order.clear((lmq, group, 0))

    def _remove(self, entry: LiteSubscriptionEntry, lmqs: list[str], now: int) -> None:
        client = self._subscriptions.clients.get(entry.client_id)
        if client is None:
            return
        client.updated_ms = now
        for lmq in lmqs:
            if self._take(client, lmq, now) and resets(self._groups.get(client.group), "unsubscribe"):
                self._begin_at(client.group, lmq, 0, now)

    def _take(self, client: LiteClient, lmq: str, now: int) -> bool:
        """Takes a queue from a client, and gives what it has to another one."""
        if not self._subscriptions.remove(client, lmq):
            return False
        self._events.forget(client, lmq)
        if self._events.has_unread(client.group, lmq):
            self._events.tell(lmq, now, client.group)
        return True

    def _replace(self, entry: LiteSubscriptionEntry, wanted: set[str], connection_id: int, now: int) -> None:
        group = self._group(entry.group, now)
        is_new = entry.client_id not in self._subscriptions.clients
        client = self._subscriptions.join(
            entry.client_id, entry.group, entry.topic, connection_id, now, is_wildcard=is_wildcard(group)
        )
        if client.is_wildcard:
            if is_new:
                self._events.tell_all(client, now)
            return
        for lmq in client.taken_over & wanted:
            self._notify(client, lmq)  # it has not heard of it
        client.taken_over &= wanted
        for lmq in client.lmqs - wanted:
            self._take(client, lmq, now)
        most = self._settings.max_lite_subscription_count
        for lmq in wanted - client.lmqs - client.taken_over:
            if self._subscriptions.count >= most:
                break
            self._register(client, lmq, now)

    def drop(self, client_id: str, now: int) -> None:
        """Forgets a client; what waited for it goes to others."""
        client = self._subscriptions.drop(client_id)
        if client is not None:
            self._events.dropped(client, now)

    def drop_silent(self, now: int) -> None:
        """Forgets clients that have not said for long what they subscribe to."""
        timeout_ms = self._settings.lite_subscription_check_timeout_mills
        for client in self._subscriptions.silent_since(now - timeout_ms):
            self.drop(client.client_id, now)
