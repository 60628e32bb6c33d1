"""Administration from programs, as methods: each is the function behind the command of the same meaning.

The functions are loaded when they are first called, for they bring the command line with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from orbitmq.admin import admin
from orbitmq.protocol.bodies.heartbeat import ConsumerConnection
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.bodies.stats import TopicOffset
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.message import StoredMessage

if TYPE_CHECKING:
    from orbitmq.admin.commands.group_list import KnownGroup
    from orbitmq.admin.commands.group_progress import Progress

T = TypeVar("T")
R = TypeVar("R")


class Admin(admin.Admin):
    """Administration of brokers, topics, groups and messages, of OrbitMQ and of Apache RocketMQ alike.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=4)
            print((await admin.group_progress("billing")).lag)

    `namesrv` is `host:port`, several with `;` between; empty: NAMESRV_ADDR of the environment, else
    127.0.0.1:9876. Keys and `tls` are as those of producers, `timeout_ms` is for one question to a server.

    Methods raise BrokerRefused (NoPermission, TopicNotExist and others) where a server says no, NetError
    where none answers, NoBroker where none is registered that is meant.
    """

    async def start(self) -> None:
        """Does nothing: connections open when they are needed."""

    async def each(self, things: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:
        """`act` for each of several things, many at a time; the results in their order.

        Raises the first error of those that there were.
        """
        try:
            return await super().each(things, act)
        except ExceptionGroup as failed:
            first: Exception = failed
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            raise first from first.__cause__

    # Topics.

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        perm: int = 6,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Creates a topic on all masters, or changes it where it is there already; gives the brokers' names.

        `queues` are per broker, `perm` is the sum of 4 (read) and 2 (write).
        """
        from orbitmq.admin.commands.topic_create import create_topic_on_masters

        signed = {f"+{name}": value for name, value in (attributes or {}).items()}
        reads = queues if read_queues is None else read_queues
        config = TopicConfig(topic, reads, queues, perm, order=order, attributes=signed)
        return await create_topic_on_masters(self, config, cluster, broker)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Deletes a topic, its messages, and the offsets of all groups on it; gives the brokers' names."""
        from orbitmq.admin.commands.topic_delete import delete_topic

        return await delete_topic(self, topic, cluster)

    async def topics(self, *, cluster: str | None = None, everything: bool = False) -> list[str]:
        """Names of topics, sorted; with `everything` those of the system, retries and dead letters, too."""
        from orbitmq.admin.commands.topic_list import own_topics, topic_names

        names = await topic_names(self, cluster)
        return names if everything else await own_topics(self, names)

    async def topic_route(self, topic: str) -> TopicRouteData:
        """The route of a topic. Raises TopicNotExist."""
        from orbitmq.admin.commands.topic_route import topic_route

        return await topic_route(self, topic)

    async def topic_status(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Smallest and next queue offset and last store time of every queue of a topic."""
        from orbitmq.admin.commands.topic_status import topic_status

        return await topic_status(self, topic)

    async def set_topic_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, int]:
        """Sets the permission of a topic, the sum of 4 (read) and 2 (write); gives the old one by broker."""
        from orbitmq.admin.commands.topic_perm import set_topic_perm_on_masters

        _check_perm(perm)
        return await set_topic_perm_on_masters(self, topic, perm, cluster, broker)

    # Groups.

    async def create_group(
        self,
        group: str,
        *,
        max_retries: int | None = None,
        retry_queues: int | None = None,
        enabled: bool | None = None,
        broadcast: bool | None = None,
        orderly: bool | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Creates a consumer group on all masters; gives the brokers' names.

        `max_retries` (16) are deliveries after the first one before a message is a dead letter,
        `retry_queues` (1) queues of the retry topic; `enabled` lets the group consume, `broadcast` allows
        broadcasting members, `orderly` is for groups that pop in order. Of a group that exists, what is
        given changes.
        """
        from orbitmq.admin.commands.group_create import create_group_on_masters

        given: dict[str, int | bool | None] = {
            "retry_max_times": max_retries,
            "retry_queue_nums": retry_queues,
            "consume_enable": enabled,
            "consume_broadcast_enable": broadcast,
            "consume_message_orderly": orderly,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return await create_group_on_masters(self, group, changes, cluster, broker)

    async def delete_group(
        self, group: str, *, keep_offsets: bool = False, keep_topics: bool = False, cluster: str | None = None
    ) -> list[str]:
        """Deletes a group with its offsets, its retry and dead-letter topics; gives the brokers' names.

        With `keep_offsets` a later group of this name goes on where this one was.
        """
        from orbitmq.admin.commands.group_delete import delete_group

        return await delete_group(
            self, group, clean_offset=not keep_offsets, topics=not keep_topics, cluster=cluster
        )

    async def group_connections(self, group: str) -> ConsumerConnection:
        """The members of a group that are there, and what they subscribe to. Raises ConsumerNotOnline."""
        from orbitmq.admin.commands.group_connections import group_connections

        return await group_connections(self, group)

    async def groups(
        self, *, cluster: str | None = None, broker: str | None = None, everything: bool = False
    ) -> dict[str, KnownGroup]:
        """Consumer groups by name; with `everything` the brokers' own, too."""
        from orbitmq.admin.commands.group_list import known_groups

        return await known_groups(self, cluster, broker, everything=everything)

    async def group_progress(self, group: str, topic: str | None = None) -> Progress:
        """The progress of a group on a topic, or on all that it consumes: `lag`, `in_flight`, `queues`.

        Without queues where it has no offsets yet.
        """
        from orbitmq.admin.commands.group_progress import group_progress

        return await group_progress(self, group, topic)

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: int | Literal["earliest", "latest"],
        *,
        broker: str | None = None,
        queue_id: int | None = None,
    ) -> dict[MessageQueue, int]:
        """Sets where a group goes on: at a store time (ms since 1970), at the start, or past what waits.

        Gives the new offsets by queue. The group has to be known to the broker; its consumers need not be
        there, nor be stopped. For a queue offset in place of a time see `set_offset`. Raises GroupNotExist.
        """
        from orbitmq.admin.commands.reset_offset import EARLIEST, LATEST, reset_offset

        moment = {"earliest": EARLIEST, "latest": LATEST}.get(to, to) if isinstance(to, str) else to
        if not isinstance(moment, int):
            raise ValueError(f"reset_offsets: to has to be earliest, latest or ms since 1970, not {to!r}")
        queue = -1 if queue_id is None else queue_id
        return await reset_offset(self, group, topic, moment, queue_id=queue, broker=broker)

    async def set_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Sets the queue offset at which a group goes on, of one queue; gives what the broker made of it."""
        from orbitmq.admin.commands.reset_offset import LATEST, reset_offset

        table = await reset_offset(
            self,
            group,
            queue.topic,
            LATEST,
            queue_id=queue.queue_id,
            offset=offset,
            broker=queue.broker_name,
        )
        if queue not in table:
            raise admin.NoBroker(f"no broker {queue.broker_name} has queues of topic {queue.topic}")
        return table[queue]

    # Messages.

    async def view_message(self, message_id: str, topic: str | None = None) -> StoredMessage:
        """The message with an offset id (`SendResult.offset_message_id`), from the broker that it names."""
        from orbitmq.admin.commands.messages import message_by_id

        return await message_by_id(self, message_id, topic)

    async def message_at(self, queue: MessageQueue, queue_offset: int) -> StoredMessage:
        """The message at a place in a queue. Raises NoMessage."""
        from orbitmq.admin.commands.messages import message_at

        return await message_at(self, queue, queue_offset)

    async def query_messages(
        self, topic: str, key: str, *, unique: bool = False, max_count: int = 32
    ) -> list[StoredMessage]:
        """Messages of a topic by a key of theirs, oldest first; with `unique` by their unique id."""
        from orbitmq.admin.commands.messages import messages_by_key

        return await messages_by_key(self, topic, key, unique=unique, max_count=max_count)

    # Brokers.

    async def cluster_list(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> list[tuple[admin.BrokerAt, Mapping[str, str] | OrbitError]]:
        """Every broker with its figures, by Apache's names; or with the error that there are none for."""
        from orbitmq.admin.commands.cluster_list import cluster_figures

        return await cluster_figures(self, cluster, broker)

    async def broker_status(self, broker: str) -> dict[str, str]:
        """All figures of a broker, a name or `host:port`, by Apache's names."""
        from orbitmq.admin.commands.broker_status import broker_status

        [address, *_] = await self.addresses(broker)
        return await broker_status(self, address)

    async def broker_config(self, broker: str) -> dict[str, str]:
        """All options of a broker, a name or `host:port`, by Apache's names."""
        from orbitmq.admin.commands.broker_config import broker_config

        [address, *_] = await self.addresses(broker)
        return await broker_config(self, address)

    async def set_broker_config(self, broker: str, options: Mapping[str, str]) -> list[str]:
        """Sets options of running brokers, all or none; gives their addresses. Raises OptionError."""
        from orbitmq.admin.commands.broker_set import set_options

        return await set_options(self, broker, options)


def _check_perm(perm: int) -> None:
    if type(perm) is not int or not 0 <= perm <= 7:
        raise ValueError(f"set_topic_perm: perm has to be from 0 to 7, not {perm!r}")
