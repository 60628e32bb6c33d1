"""Administration from programs: functions of all subjects as methods, with the connections as `self`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeVar

from orbitmq.admin import admin, brokers, clusters, messages, progress
from orbitmq.admin import groups as _groups
from orbitmq.admin import topics as _topics
from orbitmq.admin.bodies import plain, plain_as_far
from orbitmq.admin.resets import LATEST, moment_of, reset_offset
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.message import StoredMessage

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

    create_topic = _topics.create_topic_on_masters
    delete_topic = _topics.delete_topic
    topics = _topics.topics
    topic_route = admin.Admin.route
    topic_status = _topics.topic_status
    set_topic_perm = _topics.set_topic_perm_on_masters

    # Groups.

    create_group = _groups.create_group_on_masters
    delete_group = _groups.delete_group
    group_connections = _groups.group_connections
    groups = _groups.known_groups
    group_progress = progress.group_progress

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: int | Literal["earliest", "latest"],
        *,
        broker: str | None = None,
        queue_id: int | None = None,
    ) -> dict[MessageQueue, int]:
        """Sets where a group continues: at a store time (ms since 1970), at the start, or past what waits.

        Gives the new offsets by queue. The group has to be known to the broker; its consumers need not be
        there, nor be stopped. For a queue offset in place of a time see `set_offset`. Raises GroupNotExist.
        """
        queue = -1 if queue_id is None else queue_id
        return await reset_offset(self, group, topic, moment_of(to), queue_id=queue, broker=broker)

    async def set_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Sets the queue offset at which a group continues, of one queue; gives the result."""
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
        """The message with an offset id (`SendResult.offset_message_id`), from the broker that it names.

        Raises BodyTooLarge for a body above `max_inflated_body_bytes`.
        """
        return await plain(
            await messages.message_by_id(self, message_id, topic), self.max_inflated_body_bytes
        )

    async def message_at(self, queue: MessageQueue, queue_offset: int) -> StoredMessage:
        """The message at a place in a queue.

        Raises NoMessage, BodyTooLarge for a body above `max_inflated_body_bytes`.
        """
        return await plain(await messages.message_at(self, queue, queue_offset), self.max_inflated_body_bytes)

    async def query_messages(
        self, topic: str, key: str, *, unique: bool = False, max_count: int = 32
    ) -> list[StoredMessage]:
        """Messages of a topic by a key of theirs, oldest first; with `unique` by their unique id.

        Bodies are inflated, up to `max_inflated_body_bytes` each and 32 MiB together. One that cannot be
        stays as it is stored, and its `sys_flag` says so; a warning has the reason, `message_at` raises it.
        """
        found = await messages.messages_by_key(self, topic, key, unique=unique, max_count=max_count)
        return await plain_as_far(found, self.max_inflated_body_bytes)

    # Brokers.

    cluster_list = clusters.cluster_figures

    async def broker_status(self, broker: str) -> dict[str, str]:
        """All figures of a broker, a name or `host:port`, by Apache's names."""
        [address, *_] = await self.addresses(broker)
        return await brokers.broker_status(self, address)

    async def broker_config(self, broker: str) -> dict[str, str]:
        """All options of a broker, a name or `host:port`, by Apache's names."""
        [address, *_] = await self.addresses(broker)
        return await brokers.broker_config(self, address)

    set_broker_config = brokers.set_options
