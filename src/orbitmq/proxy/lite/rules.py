"""Names, groups and answers of lite topics. Rules only."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.lite import (
    LiteAction,
    LiteSubscriptionCtlBody,
    LiteSubscriptionEntry,
    OffsetOption,
    OffsetOptionType,
)
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb

LITE_CLIENTS = frozenset({pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER})
SPARE_NAMES = 300
"""Names that a client may give beyond its quota: it may not know of a lower one yet."""
_QUOTA, _DEFAULT_QUOTA = "lite.sub.client.quota", 2000
_MOST_QUOTA = 2**31 - 1


def quota_of(group: SubscriptionGroupConfig) -> int:
    """The most lite topics that one client of a group may subscribe to."""
    text = group.attributes.get(_QUOTA, "")
    return min(int(text), _MOST_QUOTA) if text.isascii() and text.isdigit() else _DEFAULT_QUOTA


def check_kind(client_type: int, group: str, config: SubscriptionGroupConfig) -> None:
    """Raises ProxyRefused for a lite client of a group that is none, and the other way round."""
    is_lite, is_lite_group = client_type in LITE_CLIENTS, bound_topic(config) is not None
    if is_lite and not is_lite_group:
        raise ProxyRefused(pb.ILLEGAL_CONSUMER_GROUP, f"regular group cannot use LITE mode: {group}")
    if is_lite_group and not is_lite:
        raise ProxyRefused(pb.ILLEGAL_CONSUMER_GROUP, f"lite group must use LITE mode: {group}")


def subscription_body(
    action: str,
    client_id: str,
    group: str,
    topic: str,
    lite_topics: Sequence[str] = (),
    option: pb.OffsetOption | None = None,
    version: int = 0,
) -> LiteSubscriptionCtlBody:
    """The body of a request that changes what a client subscribes to."""
    kind = None if option is None else option.WhichOneof("offset_type")
    entry = LiteSubscriptionEntry(
        LiteAction(action), client_id, group, list(lite_topics) or None, None, topic, version
    )
    if option is not None and kind is not None:
        entry.offset_option = OffsetOption(OffsetOptionType(kind.upper()), getattr(option, kind))
    return LiteSubscriptionCtlBody([entry])
