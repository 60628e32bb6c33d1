"""Clients: the contents of their heartbeats, and the lists that brokers give of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.protocol.codes import LanguageCode
from orbitmq.protocol.schema.json_body import JsonBody, Long, named

MEMBERS_SHOWN = 3
"""Members that a sentence names."""


class ConsumeType(IntEnum):
    """The kind of a consumer: it pulls itself, has messages pushed to its handler, or pops them."""

    CONSUME_ACTIVELY = 0
    CONSUME_PASSIVELY = 1
    CONSUME_POP = 2


class MessageModel(IntEnum):
    """Broadcasting: every member of a group gets every message; clustering: the members share them."""

    BROADCASTING = 0
    CLUSTERING = 1


class ConsumeFromWhere(IntEnum):
    """First position of a group on a queue without an offset. Names with MIN and MAX are obsolete."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


@dataclass(slots=True)
class SubscriptionData(JsonBody):
    """A group's selection of messages of a topic."""

    topic: str = ""
    sub_string: str = ""
    expression_type: str = "TAG"
    """TAG or SQL92."""
    tags_set: set[str] = field(default_factory=set)
    """Empty: all messages."""
    code_set: set[int] = field(default_factory=set)
    """The tags' hash codes, by which consume queues are filtered."""
    sub_version: Long = 0
    """ms; a newer one replaces the group's subscription."""
    class_filter_mode: bool = False

    @property
    def filter(self) -> tuple[str, str]:
        """Its type and expression, in one form for all that mean the same: tags are sorted, `*` is all."""
        text = self.sub_string.strip()
        if self.expression_type and self.expression_type != "TAG":
            return self.expression_type, text
        return "TAG", " || ".join(sorted({tag for part in text.split("||") if (tag := part.strip())})) or "*"


@dataclass(slots=True)
class ConsumerData(JsonBody):
    """One consumer group of a client."""

    group_name: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(slots=True)
class ProducerData(JsonBody):
    """One producer group of a client."""

    group_name: str = ""


@dataclass(slots=True)
class HeartbeatData(JsonBody):
    """Identity, producers and consumers of a client. `heartbeat_fingerprint` 0 is the first form of
    heartbeats.

    With `without_sub` the subscriptions that the broker knows stay as they are.
    """

    client_id: str = field(default="", metadata=named("clientID"))
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


@dataclass(slots=True)
class CheckClientRequestBody(JsonBody):
    """A subscription that a client wants checked before it starts."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


@dataclass(slots=True)
class Connection(JsonBody):
    """One client of a group."""

    client_id: str = ""
    client_addr: str = ""
    language: LanguageCode | None = None
    version: int = 0


@dataclass(slots=True)
class FilterOfMembers(JsonBody):
    """A filter by which some members of a group read a topic, while others read it by another one.

    Apache's brokers do not tell of this.
    """

    topic: str = ""
    expression_type: str = ""
    """TAG or SQL92; empty for members that do not subscribe the topic."""
    expression: str = ""
    broadcasting: bool = False
    """True if they read all queues, and others share them."""
    client_ids: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The filter and its members, as people read it."""
        return f"{self.text} ({self.members})"

    @property
    def text(self) -> str:
        if not self.expression_type:
            return "not subscribed"
        kind = "" if self.expression_type == "TAG" else f"{self.expression_type} "
        return f"{kind}`{self.expression}`{', broadcasting' if self.broadcasting else ''}"

    @property
    def members(self) -> str:
        """The first of the members, and the number of the others."""
        more = len(self.client_ids) - MEMBERS_SHOWN
        return ", ".join(self.client_ids[:MEMBERS_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(slots=True)
class ConsumerConnection(JsonBody):
    """The clients of a consumer group and what they subscribe to, by topic."""

    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    filters_of_members: list[FilterOfMembers] | None = None
    """None where members agree, and from Apache's brokers."""


@dataclass(slots=True)
class ProducerConnection(JsonBody):
    """The clients of a producer group."""

    connection_set: list[Connection] = field(default_factory=list)


@dataclass(slots=True)
class ProducerInfo(JsonBody):
    """One client of a producer group, with the time (ms) of its last heartbeat."""

    client_id: str = ""
    remote_ip: str = field(default="", metadata=named("remoteIP"))
    language: LanguageCode | None = None
    version: int = 0
    last_update_timestamp: Long = 0


@dataclass(slots=True)
class ProducerTableInfo(JsonBody):
    """All producers by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


@dataclass(slots=True)
class GetConsumerListByGroupResponseBody(JsonBody):
    """The client ids of a consumer group."""

    consumer_id_list: list[str] | None = None
    filters_of_members: list[FilterOfMembers] | None = None
    """None where members agree, and from Apache's brokers."""


@dataclass(slots=True)
class QuerySubscriptionResponseBody(JsonBody):
    """The subscription of a group to a topic."""

    subscription_data: SubscriptionData | None = None
    group: str = ""
    topic: str = ""
