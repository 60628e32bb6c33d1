"""Topics of a cluster: names, routes, offsets, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orbitmq.admin.admin import Admin, BrokerAt, NoBroker
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.bodies.stats import TopicOffset, unpack_ends
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, DLQ_PREFIX, RETRY_PREFIX
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset, SearchOffsetByTimestamp
from orbitmq.protocol.requests.route import (
    DeleteTopicInNamesrv,
    GetAllTopicListFromNameserver,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
)
from orbitmq.protocol.requests.topic import (
    DeleteTopicInBroker,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    TopicStatsReply,
    UpdateAndCreateTopic,
)
from orbitmq.protocol.schema.declare import Void


async def create_topic(admin: Admin, address: str, config: TopicConfig) -> None:
    """Creates a topic on one broker, or changes it to be as `config` says; attributes need their signs."""
    await admin.call(address, create_request(config))


async def create_topic_on_masters(
    admin: Admin,
    topic: str,
    *,
    queues: int = 8,
    read_queues: int | None = None,
    perm: int = 6,
    order: bool = False,
    attributes: Mapping[str, str] | None = None,
    without_attributes: Iterable[str] = (),
    cluster: str | None = None,
    broker: str | None = None,
) -> list[str]:
    """Creates a topic on all masters, or changes it where it is there already; gives the brokers' names.

    `queues` are per broker, `perm` is the sum of 4 (read) and 2 (write). Brokers refuse to remove an
    attribute that the topic does not have.
    """
    signed = {f"+{name}": value for name, value in (attributes or {}).items()}
    signed |= {f"-{name}": "" for name in without_attributes}
    reads = queues if read_queues is None else read_queues
    config = TopicConfig(topic, reads, queues, perm, order=order, attributes=signed)

    async def create(one: BrokerAt) -> None:
        await create_topic(admin, one.address, config)

    masters = await admin.masters(cluster, broker)
    await admin.each(masters, create)
    return [one.name for one in masters]


def create_request(config: TopicConfig) -> UpdateAndCreateTopic:
    """The request that makes a topic what `config` says."""
    return UpdateAndCreateTopic(
        topic=config.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type="SINGLE_TAG",
        order=config.order,
        topic_sys_flag=config.topic_sys_flag,
        attributes=",".join(f"{key}={value}" for key, value in config.attributes.items()) or None,
    )


async def delete_topic(admin: Admin, topic: str, cluster: str | None = None) -> list[str]:
    """Deletes a topic, its messages, and the offsets of all groups on it; gives the brokers' names."""

    async def delete(one: BrokerAt) -> Void:
        return await admin.call(one.address, DeleteTopicInBroker(topic))

    masters = await admin.masters(cluster)
    await admin.each(masters, delete)
    await admin.ask_all(DeleteTopicInNamesrv(topic, cluster))
    return [one.name for one in masters]


async def topic_names(admin: Admin, cluster: str | None = None) -> list[str]:
    """Names of all topics, or of those of one cluster, sorted."""
    if cluster is None:
        return sorted((await admin.ask(GetAllTopicListFromNameserver())).body.topic_list)
    return sorted((await admin.ask(GetTopicsByCluster(cluster))).body.topic_list)


async def system_topics(admin: Admin) -> set[str]:
    """Names of topics that brokers and name servers made for themselves."""
    names = set((await admin.ask(GetSystemTopicListFromNs())).body.topic_list)
    try:
        brokers = await admin.masters()
    except NoBroker:
        return names

    async def ask(one: BrokerAt) -> list[str]:
        try:
            return (await admin.call(one.address, GetSystemTopicListFromBroker())).body.topic_list
        except OrbitError:
            return []

    for some in await admin.each(brokers, ask):
        names.update(some)
    return names


async def topics(admin: Admin, *, cluster: str | None = None, everything: bool = False) -> list[str]:
    """Names of topics, sorted; with `everything` those of the system, retries and dead letters, too."""
    names = await topic_names(admin, cluster)
    return names if everything else await own_topics(admin, names)


async def own_topics(admin: Admin, names: list[str]) -> list[str]:
    """Those of `names` that are not the system's, nor for retries and dead letters."""
    system = await system_topics(admin)
    return [name for name in names if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]


async def set_topic_perm(admin: Admin, address: str, topic: str, perm: int) -> TopicConfig:
    """Changes the permission of a topic on one broker and nothing else of it; gives what it was."""
    present = (await admin.call(address, GetTopicConfig(topic))).body
    await create_topic(admin, address, replace(present, perm=perm, attributes={}))
    return present


async def set_topic_perm_on_masters(
    admin: Admin, topic: str, perm: int, cluster: str | None = None, broker: str | None = None
) -> dict[str, int]:
    """Sets the permission of a topic, the sum of 4 (read) and 2 (write); gives the old one by broker."""
    if type(perm) is not int or not 0 <= perm <= 7:
        raise ValueError(f"set_topic_perm: perm has to be from 0 to 7, not {perm!r}")
    wanted = {one.address for one in await admin.masters(cluster, broker)}
    return {
        one.name: (await set_topic_perm(admin, one.address, topic, perm)).perm
        for one in await admin.brokers_of(topic)
        if one.address in wanted
    }


def perm_text(perm: int) -> str:
    """`RW` for 6: what a topic lets clients do, as mqadmin prints it."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The queues of a topic on one broker."""

    cluster: str | None
    broker: str
    addresses: dict[str, str]
    """By broker id; 0 is the master."""
    read_queues: int
    write_queues: int
    perm: int
    """Sum of 4 read, 2 write."""


def broker_routes(route: TopicRouteData) -> list[BrokerRoute]:
    """A route by broker, sorted by name."""
    brokers = {data.broker_name: data for data in route.broker_datas}
    return [
        BrokerRoute(
            data.cluster if data else None,
            one.broker_name,
            {str(broker_id): text for broker_id, text in ((data and data.broker_addrs) or {}).items()},
            one.read_queue_nums,
            one.write_queue_nums,
            one.perm,
        )
        for one in sorted(route.queue_datas, key=lambda one: one.broker_name)
        for data in [brokers.get(one.broker_name)]
    ]


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue: offsets, and when its last message was stored."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_ms: int
    """0 where nothing says it."""


def queue_states(offsets: Mapping[MessageQueue, TopicOffset]) -> list[QueueState]:
    """Queues with their offsets, in the order given."""
    return [
        QueueState(
            queue.broker_name, queue.queue_id, one.min_offset, one.max_offset, one.last_update_timestamp
        )
        for queue, one in offsets.items()
    ]


def message_count(offsets: Mapping[MessageQueue, TopicOffset]) -> int:
    """The number of messages between the offsets of queues."""
    return sum(one.max_offset - one.min_offset for one in offsets.values())


async def queue_counts(admin: Admin, topic: str) -> dict[str, int]:
    """The number of queues of a topic on each of its brokers, by the route alone. Raises TopicNotExist."""
    answering = {one.name for one in await admin.brokers_of(topic)}
    found = (await admin.route(topic)).queue_datas
    counts = {one.broker_name: max(one.read_queue_nums, one.write_queue_nums) for one in found}
    return {name: counts[name] for name in sorted(counts) if name in answering}


async def offsets_of(admin: Admin, queues: Sequence[MessageQueue]) -> dict[MessageQueue, TopicOffset]:
    """Smallest and largest offsets of some queues of one topic, without store times.

    Each is asked for alone: of a topic with very many queues the table of `topic_status` takes seconds.
    """
    addresses = {one.name: one.address for one in await admin.brokers_of(queues[0].topic)} if queues else {}

    async def ask(queue: MessageQueue) -> TopicOffset:
        address = addresses[queue.broker_name]
        low = await admin.call(address, GetMinOffset(queue.topic, queue.queue_id, logical=False))
        high = await admin.call(address, GetMaxOffset(queue.topic, queue.queue_id, logical=False))
        return TopicOffset(low.offset, high.offset)

    known = [queue for queue in queues if queue.broker_name in addresses]
    return dict(zip(known, await admin.each(known, ask), strict=True))


async def topic_status(admin: Admin, topic: str) -> dict[MessageQueue, TopicOffset]:
    """Smallest and next queue offset and last store time of every queue of a topic, sorted."""

    async def ask(one: BrokerAt) -> dict[MessageQueue, TopicOffset]:
        return (await admin.call(one.address, GetTopicStatsInfo(topic))).body.offset_table

    tables = await admin.each(await admin.brokers_of(topic), ask)
    return dict(sorted((queue, offsets) for table in tables for queue, offsets in table.items()))


async def queue_ends(admin: Admin, topic: str) -> dict[str, Sequence[int]]:
    """The next queue offset of every queue of a topic, by broker and queue id: 0 where nothing was stored.

    Where the brokers are OrbitMQ's it is no table of 12 MB if there are 100,000 queues.
    """

    async def ask(one: BrokerAt) -> Sequence[int]:
        body = (await admin.call(one.address, GetTopicStatsInfo(topic, only_ends=True))).body
        if body.ends is not None:
            return unpack_ends(body.ends)
        ends = {queue.queue_id: offsets.max_offset for queue, offsets in body.offset_table.items()}
        return [ends.get(queue_id, 0) for queue_id in range(max(ends, default=-1) + 1)]

    brokers = await admin.brokers_of(topic)
    return dict(zip((one.name for one in brokers), await admin.each(brokers, ask), strict=True))


async def newest_queues(admin: Admin, topic: str, most: int) -> tuple[dict[MessageQueue, TopicOffset], int]:
    """The queues with the newest messages, the newest first, and the number of the others that have messages.

    OrbitMQ's brokers send no more than these; Apache's send all queues.
    """

    async def ask(one: BrokerAt) -> TopicStatsReply:
        return await admin.call(one.address, GetTopicStatsInfo(topic, most))

    replies = await admin.each(await admin.brokers_of(topic), ask)
    there = [
        (queue, one)
        for reply in replies
        for queue, one in reply.body.offset_table.items()
        if one.max_offset > one.min_offset
    ]
    there.sort(key=lambda found: -found[1].last_update_timestamp)
    left_out = sum(reply.left_out or 0 for reply in replies)
    return dict(there[:most]), left_out + max(0, len(there) - most)


async def offset_at_time(
    admin: Admin, address: str, queue: MessageQueue, known: TopicOffset, at_ms: int
) -> int:
    """The offset of a queue's first message that was stored at a time (ms) or later; its end without one.

    Only brokers of queues that may have one are asked: a topic may have 100,000 queues, most of them empty.
    """
    if known.max_offset <= known.min_offset or 0 < known.last_update_timestamp < at_ms:
        return known.max_offset
    found = await admin.call(
        address, SearchOffsetByTimestamp(queue.topic, queue.queue_id, at_ms, logical=False)
    )
    return min(found.offset, known.max_offset)
