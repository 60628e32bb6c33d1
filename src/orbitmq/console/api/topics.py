"""Topics: list, create, change, delete, routes, publish."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict
from typing import Annotated, Any, Literal

import msgspec

from orbitmq.admin import Admin
from orbitmq.admin.stats import groups_of, statistic, young_brokers
from orbitmq.admin.topics import (
    BrokerRoute,
    QueueState,
    broker_routes,
    create_topic_on_masters,
    message_count,
    offsets_of,
    queue_counts,
    queue_states,
    system_topics,
    topic_names,
    topic_status,
)
from orbitmq.admin.topics import delete_topic as delete_topic_everywhere
from orbitmq.client import Message
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError, check_confirmed
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import OrbitError, PeerFailed, RequestNotSupported, TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, check_topic
from orbitmq.protocol.requests.topic import GetTopicConfig

MOST_SUMMED = 2000
"""Queues of a topic that are asked for all together. Of a topic with more, pages of queues are asked for."""
MOST_FIGURES = 60
"""Topics whose figures one request may ask for: about as many as a screen shows."""

Kind = Literal["normal", "retry", "deadLetter", "system"]
Queues = Annotated[int, msgspec.Meta(ge=1, le=1024)]


class Topic(msgspec.Struct, rename="camel"):
    """One line of the list."""

    name: str
    kind: Kind


class Topics(msgspec.Struct, rename="camel"):
    """All topics, by name."""

    topics: list[Topic]


class TopicsQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Topics to list."""

    kind: Kind | None = None


class FiguresQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Topics to look at."""

    topic: list[str]


class TopicFigures(msgspec.Struct, rename="camel"):
    """Contents of a topic, and its rates; null where its brokers did not answer.

    Messages and the last time are not told of a topic with more than 2,000 queues.
    """

    name: str
    brokers: int | None = None
    queues: int | None = None
    messages: int | None = None
    in_tps: float | None = None
    in_day: int | None = None
    groups: int | None = None
    last_ms: int | None = None
    error: str | None = None


class FiguresOfTopics(msgspec.Struct, rename="camel"):
    """In the order asked for."""

    topics: list[TopicFigures]
    young_brokers: dict[str, float]
    """Brokers that run for less than 24 h, with their hours: they count since their start."""


class TopicDetail(msgspec.Struct, rename="camel"):
    """Everything about one topic."""

    name: str
    kind: Kind
    routes: list[BrokerRoute]
    queues: list[QueueState]
    """Empty where there are more than 2,000: `.../queues` has them page by page."""
    queue_count: int
    messages: int | None
    """Null where there are more than 2,000 queues."""
    attributes: dict[str, str] | None
    """Null where the broker does not say: it is older than 5.0."""
    order: bool | None
    groups: list[str]
    in_tps: float
    in_day: int
    young_brokers: dict[str, float]
    """Brokers that run for less than 24 h, with their hours: they count since their start."""


class QueuesQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A page of queues, in the order of brokers and numbers."""

    skip: Annotated[int, msgspec.Meta(ge=0)] = 0
    max: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class QueuePage(msgspec.Struct, rename="camel"):
    """Queues of one topic."""

    total: int
    queues: list[QueueState]
    """`lastMs` is 0 where the topic has more than 2,000 queues."""


class TopicSettings(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A topic to create, or what to change of one."""

    queues: Queues = 8
    """Write queues on each broker."""
    read_queues: Queues | None = None
    perm: Annotated[int, msgspec.Meta(ge=0, le=7)] = 6
    order: bool = False
    attributes: dict[str, str] = {}
    """For example `message.type`: `FIFO`; a name with an empty value is removed."""
    create: bool = False
    """Refuse it where the topic is there already."""


class ChangedOn(msgspec.Struct, rename="camel"):
    """Names of the brokers that made the change."""

    brokers: list[str]


class Deletion(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The name once more: nothing is deleted by mistake."""

    confirm: str


class Publication(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A message to send: `text` or `base64`."""

    text: str | None = None
    base64: str | None = None
    tag: str | None = None
    keys: list[str] = []
    properties: dict[str, str] = {}
    order_key: str | None = None
    """Messages with one key go to one queue."""
    delay_level: Annotated[int, msgspec.Meta(ge=0, le=18)] = 0
    delay_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Any delay, on brokers of 5.0 or newer."""


class Published(msgspec.Struct, rename="camel"):
    """The place of a sent message."""

    status: str
    message_id: str
    offset_message_id: str | None
    broker: str
    queue_id: int
    queue_offset: int


@endpoint("GET", "/api/clusters/{cluster}/topics", Role.VIEWER, rows=("topics",))
async def list_topics(call: Call[TopicsQuery, None]) -> Topics:
    """Names and kinds of all topics, or of those of one kind."""
    admin = call.cluster.reader
    system = await system_topics(admin)
    topics = [Topic(name, _kind(name, system)) for name in await topic_names(admin)]
    return Topics([one for one in topics if call.query.kind in (None, one.kind)])


@endpoint("GET", "/api/clusters/{cluster}/topic-figures", Role.VIEWER, rows=("topics",))
async def get_topic_figures(call: Call[FiguresQuery, None]) -> FiguresOfTopics:
    """Figures of up to 60 topics: those that a page shows now."""
    names = call.query.topic
    if len(names) > MOST_FIGURES:
        raise ApiError(422, "TOO_MANY", f"{MOST_FIGURES} topics at most", "Ask several times.", field="topic")
    admin = call.cluster.reader
    found = await admin.each(names, lambda name: _figures(admin, name))
    return FiguresOfTopics(found, await young_brokers(admin))


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}", Role.VIEWER, rows=("queues", "routes"))
async def get_topic(call: Call[None, None]) -> TopicDetail:
    """Queues, routes, settings and groups of one topic."""
    admin, name = call.cluster.reader, call.path["topic"]
    route = await admin.topic_route(name)
    brokers = await admin.brokers_of(name)
    config = await _config(admin, name)
    in_tps, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", name)
    count = sum((await queue_counts(admin, name)).values())
    queues = await topic_status(admin, name) if count <= MOST_SUMMED else None
    return TopicDetail(
        name,
        _kind(name, await system_topics(admin)),
        broker_routes(route),
        queue_states(queues or {}),
        count,
        None if queues is None else message_count(queues),
        None if config is None else config.attributes,
        None if config is None else config.order,
        await groups_of(admin, brokers, name),
        in_tps,
        in_day,
        await young_brokers(admin),
    )


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}/queues", Role.VIEWER, rows=("queues",))
async def list_queues(call: Call[QueuesQuery, None]) -> QueuePage:
    """Queues of one topic, page by page."""
    admin, name, query = call.cluster.reader, call.path["topic"], call.query
    counts = await queue_counts(admin, name)
    total, skip, page = sum(counts.values()), query.skip, list[MessageQueue]()
    for broker, count in counts.items():
        numbers = range(count)[skip : skip + query.max - len(page)]
        page += [MessageQueue(name, broker, number) for number in numbers]
        skip = max(0, skip - count)
    if total > MOST_SUMMED:
        return QueuePage(total, queue_states(await offsets_of(admin, page)))
    status = await topic_status(admin, name)
    return QueuePage(total, queue_states({one: status[one] for one in page if one in status}))


@endpoint("PUT", "/api/clusters/{cluster}/topics/{topic}", Role.ADMIN)
async def put_topic(call: Call[None, TopicSettings]) -> ChangedOn:
    """Create a topic on all masters, or change it."""
    admin, name, body = call.cluster.admin, call.path["topic"], call.body
    check_topic(name)
    present = await _config(admin, name)
    if body.create and present is not None:
        raise ApiError(409, "TOPIC_EXISTS", f"there is a topic {name} already", "Choose another name.")
    call.before = None if present is None else _settings(present)
    call.after = msgspec.to_builtins(body)
    had = present.attributes if present is not None else {}
    brokers = await create_topic_on_masters(
        admin,
        name,
        queues=body.queues,
        read_queues=body.read_queues,
        perm=body.perm,
        order=body.order,
        attributes={key: value for key, value in body.attributes.items() if value},
        without_attributes=[key for key, value in body.attributes.items() if not value and key in had],
    )
    return ChangedOn(brokers)


@endpoint("DELETE", "/api/clusters/{cluster}/topics/{topic}", Role.ADMIN)
async def delete_topic(call: Call[None, Deletion]) -> ChangedOn:
    """Delete a topic, its messages, and the offsets of all groups on it."""
    admin, name = call.cluster.admin, call.path["topic"]
    check_confirmed(call.body.confirm, name, "topic", "delete")
    if name in await system_topics(admin):
        raise ApiError(409, "SYSTEM_TOPIC", f"{name} is the brokers' own", "Brokers need it.")
    await admin.topic_route(name)
    present = await _config(admin, name)
    call.before = None if present is None else _settings(present)
    return ChangedOn(await delete_topic_everywhere(admin, name))


@endpoint("POST", "/api/clusters/{cluster}/topics/{topic}/messages", Role.OPERATOR)
async def publish(call: Call[None, Publication]) -> Published:
    """Send one message."""
    name, body = call.path["topic"], call.body
    await call.cluster.admin.topic_route(name)  # a broker would create a topic that is misspelt
    message = Message(
        name,
        _body(body),
        tags=body.tag or None,
        keys=body.keys,
        properties=body.properties,
        sharding_key=body.order_key or None,
        delay_level=body.delay_level,
        delay_ms=body.delay_ms or None,
    )
    result = await (await call.cluster.producer()).send(message)
    sent = Published(
        result.status.name,
        result.message_id,
        result.offset_message_id,
        result.queue.broker_name,
        result.queue.queue_id,
        result.queue_offset,
    )
    call.after = msgspec.to_builtins(sent)
    return sent


def _body(publication: Publication) -> bytes:
    if (publication.text is None) == (publication.base64 is None):
        raise ApiError(422, "BODY", "a message has either text or base64", "Give one of them.", field="text")
    if publication.text is not None:
        return publication.text.encode()
    try:
        return base64.b64decode(publication.base64 or "", validate=True)
    except binascii.Error as error:
        raise ApiError(
            422, "BASE64", f"not base64: {error}", "Encode the bytes anew.", field="base64"
        ) from None


def _kind(name: str, system: set[str]) -> Kind:
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "deadLetter"
    return "system" if name in system else "normal"


async def _config(admin: Admin, topic: str) -> TopicConfig | None:
    """The settings at the first broker; None without such a topic, or from a broker of an old version."""
    try:
        brokers = await admin.brokers_of(topic)
        return (await admin.call(brokers[0].address, GetTopicConfig(topic))).body
    except (TopicNotExist, RequestNotSupported, PeerFailed):
        return None


def _settings(config: TopicConfig) -> dict[str, Any]:
    kept = ("read_queue_nums", "write_queue_nums", "perm", "order", "attributes")
    return {name: value for name, value in asdict(config).items() if name in kept}


async def _figures(admin: Admin, name: str) -> TopicFigures:
    try:
        brokers = await admin.brokers_of(name)
        count = sum((await queue_counts(admin, name)).values())
        queues = await topic_status(admin, name) if count <= MOST_SUMMED else None
        in_tps, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", name)
        groups = await groups_of(admin, brokers, name)
    except OrbitError as error:
        return TopicFigures(name, error=str(error))
    return TopicFigures(
        name,
        len(brokers),
        count,
        None if queues is None else message_count(queues),
        in_tps,
        in_day,
        len(groups),
        max((one.last_update_timestamp for one in (queues or {}).values()), default=0),
    )
