"""A group's filter of a topic: the text that a user writes, and the row that brokers get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.client.core.checking import shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.routes import address_to_read
from orbitmq.protocol.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from orbitmq.protocol.names import check_topic
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.requests.client import CheckClientConfig

ALL = "*"
SQL92 = "SQL92"


@dataclass(slots=True, frozen=True)
class Sql:
    """A choice of messages by their properties, for `subscribe` and `pull` in place of tags.

        consumer.subscribe("orders", Sql("price > 10 AND color IN ('red', 'blue')"), handle)

    Brokers evaluate it, if their option enablePropertyFilter is set. Tags, keys and the like are properties
    too (TAGS, KEYS). A property that a message does not have compares to nothing: see the guide.
    """

    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidArgument(f"Sql: expression has to be a text, not {shown(self.expression)}")
        if not self.expression.strip():
            raise InvalidArgument("Sql: an empty expression chooses nothing")


Wanted: TypeAlias = str | Iterable[str] | Sql | None
"""`*` or None for everything, `A || B` or several tags, or an expression."""


def tags_of(expression: str | None) -> list[str]:
    """The tags of `A || B`, in order; none for everything."""
    if expression is None or not expression.strip() or expression.strip() == ALL:
        return []
    tags = [tag for part in expression.split("||") if (tag := part.strip())]
    if not tags:
        raise InvalidArgument(f"{shown(expression)} names no tag; for every message say '*'")
    return tags


def subscription(topic: str, wanted: Wanted, version_ms: int) -> SubscriptionData:
    """The row for brokers; a newer `version_ms` replaces an older.

    Raises IllegalName for the topic, InvalidArgument for what names no tag.
    """
    check_topic(topic)
    if isinstance(wanted, Sql):
        return SubscriptionData(topic, wanted.expression, SQL92, sub_version=version_ms)
    expression = wanted if wanted is None or isinstance(wanted, str) else _joined(wanted)
    tags = tags_of(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=ALL if not tags else expression or ALL,
        tags_set=set(tags),
        code_set={java_hash(tag) for tag in tags},
        sub_version=version_ms,
    )


def _joined(tags: Iterable[str]) -> str:
    if not isinstance(tags, Iterable) or isinstance(tags, bytes):
        raise InvalidArgument(f"tags has to be a text, several or Sql, not {shown(tags)}")
    listed = list(tags)
    if wrong := [tag for tag in listed if not isinstance(tag, str)]:
        raise InvalidArgument(f"tags have to be texts, not {shown(wrong[0])}")
    expression = " || ".join(listed)
    if not expression:
        raise InvalidArgument("no tag of an empty list is in any message; for every message say '*'")
    return expression


def wants(row: SubscriptionData, tags: str | None) -> bool:
    """True if a message with this tag is meant. Brokers compare hashes only, so that clients look again."""
    return not row.tags_set or tags in row.tags_set


async def check_filter(instance: ClientInstance, group: str, row: SubscriptionData) -> None:
    """Has a broker of the topic read an expression, so that a wrong one fails here and not in every pull.

    Raises BrokerRefused where the broker cannot read it, or filters by tags only; NetError.
    """
    if row.expression_type != SQL92:
        return
    route = await instance.routes.route(row.topic)
    for broker in sorted(route.brokers) if route is not None else ():
        address = address_to_read(instance.routes.members(broker))
        if address is not None:
            body = CheckClientRequestBody(instance.client_id, group, row)
            await instance.call(address, CheckClientConfig(body))
            return
