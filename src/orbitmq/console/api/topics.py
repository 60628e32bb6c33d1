"""Topics: list, create, change, delete, routes, publish."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict
from typing import Annotated, Any, Literal

import msgspec

from orbitmq.admin import Admin
from orbitmq.admin.commands.stats import groups_of, statistic
from orbitmq.admin.commands.topic_create import create_topic_on_masters
from orbitmq.admin.commands.topic_delete import delete_topic as delete_topic_everywhere
from orbitmq.admin.commands.topic_list import system_topics, topic_names
from orbitmq.admin.commands.topic_status import topic_status
from orbitmq.client import Message
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import OrbitError, PeerFailed, RequestNotSupported, TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, check_topic
from orbitmq.protocol.requests.topic import GetTopicConfig

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
    """Contents of a topic, and its rates; null where its brokers did not answer."""

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


class QueueState(msgspec.Struct, rename="camel"):
    """One queue: offsets, and when its last message was stored."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_ms: int


class BrokerRoute(msgspec.Struct, rename="camel"):
    """The queues of a topic on one broker."""

    cluster: str | None
    broker: str
    addresses: dict[str, str]
    """By broker id; 0 is the master."""
    read_queues: int
    write_queues: int
    perm: int
    """Sum of 4 read, 2 write."""


class TopicDetail(msgspec.Struct, rename="camel"):
    """Everything about one topic."""

    name: str
    kind: Kind
    routes: list[BrokerRoute]
    queues: list[QueueState]
    attributes: dict[str, str] | None
    """Null where the broker does not say: it is older than 5.0."""
    order: bool | None
    groups: list[str]
    in_tps: float
    in_day: int


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
        raise ApiError(422, "TOO_MANY", f"{MOST_FIGURES} topics at most", field="topic")
    admin = call.cluster.reader
    return FiguresOfTopics(await admin.each(names, lambda name: _figures(admin, name)))


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}", Role.VIEWER, rows=("queues", "routes"))
async def get_topic(call: Call[None, None]) -> TopicDetail:
    """Queues, routes, settings and groups of one topic."""
    admin, name = call.cluster.reader, call.path["topic"]
    route = await admin.topic_route(name)
    brokers = await admin.brokers_of(name)
    config = await _config(admin, name)
    in_tps, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", name)
    datas = {data.broker_name: data for data in route.broker_datas}
    return TopicDetail(
        name,
        _kind(name, await system_topics(admin)),
        [
            BrokerRoute(
                datas[one.broker_name].cluster if one.broker_name in datas else None,
                one.broker_name,
                {str(key): text for key, text in (datas[one.broker_name].broker_addrs or {}).items()}
                if one.broker_name in datas
                else {},
                one.read_queue_nums,
                one.write_queue_nums,
                one.perm,
            )
            for one in sorted(route.queue_datas, key=lambda one: one.broker_name)
        ],
        [
            QueueState(
                queue.broker_name, queue.queue_id, one.min_offset, one.max_offset, one.last_update_timestamp
            )
            for queue, one in (await topic_status(admin, name)).items()
        ],
        None if config is None else config.attributes,
        None if config is None else config.order,
        await groups_of(admin, brokers, name),
        in_tps,
        in_day,
    )


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
    signed = {f"+{key}": value for key, value in body.attributes.items() if value}
    had = present.attributes if present is not None else {}
    signed |= {f"-{key}": "" for key, value in body.attributes.items() if not value and key in had}
    config = TopicConfig(
        name, body.read_queues or body.queues, body.queues, body.perm, order=body.order, attributes=signed
    )

    return ChangedOn(await create_topic_on_masters(admin, config))


@endpoint("DELETE", "/api/clusters/{cluster}/topics/{topic}", Role.ADMIN)
async def delete_topic(call: Call[None, Deletion]) -> ChangedOn:
    """Delete a topic, its messages, and the offsets of all groups on it."""
    admin, name = call.cluster.admin, call.path["topic"]
    if call.body.confirm != name:
        raise ApiError(
            422, "NOT_CONFIRMED", f"type the name of the topic, {name}, to delete it", field="confirm"
        )
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
        raise ApiError(422, "BODY", "a message has either text or base64", field="text")
    if publication.text is not None:
        return publication.text.encode()
    try:
        return base64.b64decode(publication.base64 or "", validate=True)
    except binascii.Error as error:
        raise ApiError(422, "BASE64", f"not base64: {error}", field="base64") from None


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
        queues = await topic_status(admin, name)
        in_tps, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", name)
        groups = await groups_of(admin, brokers, name)
    except OrbitError as error:
        return TopicFigures(name, error=str(error))
    return TopicFigures(
        name,
        len(brokers),
        len(queues),
        sum(one.max_offset - one.min_offset for one in queues.values()),
        in_tps,
        in_day,
        len(groups),
        max((one.last_update_timestamp for one in queues.values()), default=0),
    )
