"""Checks of names by clients before anything leaves the process."""

from __future__ import annotations

from orbitmq.protocol import names
from orbitmq.protocol.names import NO_SEND_TOPICS, IllegalName

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""The producer group in which consumers send messages back by themselves."""
REFUSED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


def check_topic_to_send(topic: str) -> None:
    """Raises IllegalName for a topic that no client may send to."""
    names.check_topic(topic)
    if topic in NO_SEND_TOPICS:
        raise IllegalName(f"topic {topic} belongs to the brokers themselves")


def check_group(group: str) -> None:
    """Raises IllegalName for a group that no broker takes, or that is reserved."""
    names.check_group(group)
    if group in REFUSED_GROUPS:
        raise IllegalName(f"{group} is nobody's own group: choose another name")
