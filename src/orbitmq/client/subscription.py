"""What a group wants of a topic: the text a user writes, and the row that brokers are told."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.hashing import java_hash
from orbitmq.protocol.names import check_topic

ALL = "*"


def tags_of(expression: str | None) -> list[str]:
    """The tags of `A || B`, in order; none for everything."""
    if expression is None or not expression.strip() or expression.strip() == ALL:
        return []
    tags = [tag for part in expression.split("||") if (tag := part.strip())]
    if not tags:
        raise ValueError(f"{expression!r} names no tag; for every message say '*'")
    return tags


def subscription(topic: str, tags: str | Iterable[str] | None, version_ms: int) -> SubscriptionData:
    """The row for brokers. `tags` is `*`, `A || B`, or several tags; a newer `version_ms` replaces an older.

    Raises IllegalName for the topic, ValueError where the text names no tag.
    """
    check_topic(topic)
    expression = tags if tags is None or isinstance(tags, str) else " || ".join(tags)
    wanted = tags_of(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=ALL if not wanted else expression or ALL,
        tags_set=set(wanted),
        code_set={java_hash(tag) for tag in wanted},
        sub_version=version_ms,
    )


def wants(row: SubscriptionData, tags: str | None) -> bool:
    """Whether a message with this tag is meant. Brokers compare hashes only, so that clients look again."""
    return not row.tags_set or tags in row.tags_set
