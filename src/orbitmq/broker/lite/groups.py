"""Attributes of lite groups and of parents, read as Apache's broker reads them."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.topic import TopicConfig


def is_exclusive(group: SubscriptionGroupConfig | None) -> bool:
    """True if a lite topic has one member of the group at a time, the last one that has asked for it."""
    return group is not None and group.attributes.get("lite.sub.model") == "Exclusive"


def is_wildcard(group: SubscriptionGroupConfig | None) -> bool:
    """True if members of the group get messages of all lite topics of its parent."""
    return group is not None and "lite.sub.wildcard" in group.attributes


def resets(group: SubscriptionGroupConfig | None, on: str) -> bool:
    """True if the group starts a lite topic over `on` this event, `exclusive` or `unsubscribe`."""
    text = "" if group is None else group.attributes.get(f"lite.sub.reset.offset.{on}", "")
    return text.lower() == "true"


def most_events(group: SubscriptionGroupConfig | None, default: int) -> int:
    """The most lite topics with messages that wait for one client of the group."""
    return 10**5 if group is None else _number(group.attributes, "lite.sub.client.max.event.cnt", default)


def is_lite(topic: TopicConfig | None) -> bool:
    """True if a topic has lite topics."""
    return topic is not None and topic.attributes.get("message.type") == "LITE"


def expiration_minutes(topic: TopicConfig) -> int:
    """Time without a message after which a lite topic of this parent expires; -1: never."""
    minutes = _number(topic.attributes, "lite.topic.expiration", -1)
    return minutes if minutes > 0 else -1


def _number(attributes: Mapping[str, str], key: str, default: int) -> int:
    try:
        return min(int(attributes[key]), 10**5)
    except (KeyError, ValueError):
        return default
