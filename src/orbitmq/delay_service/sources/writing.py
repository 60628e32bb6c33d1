"""Messages that the service itself writes to its sources: actions of the API, and records of the holder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from orbitmq.client import Message, Producer, TopicNotFound
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.kafka import library, start, stop
from orbitmq.delay_service.options import ClusterAt
from orbitmq.delay_service.rules.intake import Queue
from orbitmq.protocol.names import KEYS, RESERVED_PROPERTIES, SHARDING_KEY, TAGS

GROUP = "orbitmq_delay_api"


class SourceWriter:
    """Writes to the sources of all clusters. It connects with the first message to each."""

    def __init__(self, clusters: Mapping[str, ClusterAt]) -> None:
        self._clusters = clusters
        self._starting: dict[str, asyncio.Task[Any]] = {}

    async def write(
        self,
        cluster: str,
        topic: str,
        control: Mapping[str, str],
        body: bytes,
        properties: Mapping[str, str] | None = None,
        queue: Queue | None = None,
    ) -> tuple[Queue, int]:
        """Writes a message to `queue`, or to that of the name in `control`; gives its queue and offset.

        Raises NotSchedulable, and what sending raises.
        """
        at = self._at(cluster)
        write = self._to_kafka if at.is_kafka else self._to_rocketmq
        return await write(at, topic, control, body, dict(properties or {}), queue)

    def _at(self, cluster: str) -> ClusterAt:
        at = self._clusters.get(cluster)
        if at is None:
            raise NotSchedulable(f"cluster: there is none of the name {cluster!r}")
        return at

    async def queues(self, cluster: str, topic: str) -> list[Queue]:
        """The queues of a topic. Raises NotSchedulable, TopicNotFound, and what looking it up raises."""
        at = self._at(cluster)
        producer = await self._producer(at)
        if not at.is_kafka:
            return [
                Queue(cluster, topic, f"{one.broker_name}:{one.queue_id}")
                for one in await producer.queues(topic)
            ]
        try:
            found = await producer.partitions_for(topic)
        except library().errors.UnknownTopicOrPartitionError:
            found = None
        if not found:
            raise TopicNotFound(topic)
        return [Queue(cluster, topic, str(number)) for number in sorted(found)]

    async def _to_rocketmq(
        self,
        at: ClusterAt,
        topic: str,
        control: Mapping[str, str],
        body: bytes,
        own: dict[str, str],
        queue: Queue | None,
    ) -> tuple[Queue, int]:
        producer = await self._producer(at)
        tags, key, ordering = (own.pop(name, None) for name in (TAGS, KEYS, SHARDING_KEY))
        if taken := RESERVED_PROPERTIES & own.keys():
            raise NotSchedulable(f"properties: {sorted(taken)[0]} is RocketMQ's own")
        message = Message(
            topic,
            body or b"-",
            tags=tags,
            keys=tuple((key or "").split()),
            properties={**own, **control},
        )
        chosen = None
        if queue is not None:
            queues = await producer.queues(topic)
            chosen = next((q for q in queues if f"{q.broker_name}:{q.queue_id}" == queue.name), None)
            if chosen is None:
                raise TopicNotFound(topic, f"{queue} is not there at present")
        elif name := control.get("delay.id"):
            chosen = queue_of_key(await producer.queues(topic), name)
        sent = await producer.send(message, queue=chosen, sharding_key=None if chosen else ordering)
        where = f"{sent.queue.broker_name}:{sent.queue.queue_id}"
        return Queue(at.name, topic, where), sent.queue_offset

    async def _to_kafka(
        self,
        at: ClusterAt,
        topic: str,
        control: Mapping[str, str],
        body: bytes,
        own: dict[str, str],
        queue: Queue | None,
    ) -> tuple[Queue, int]:
        producer = await self._producer(at)
        key = own.pop(KEYS, None)
        headers = [(name, text.encode()) for name, text in {**own, **control}.items()]
        partition = None
        if queue is not None:
            partition = int(queue.name)
        elif name := control.get("delay.id"):
            partitions = await producer.partitions_for(topic)
            partition = crc32(name.encode()) % len(partitions)
        sent = await producer.send_and_wait(
            topic, body, key.encode() if key else None, partition, headers=headers
        )
        return Queue(at.name, topic, str(sent.partition)), sent.offset

    async def _producer(self, at: ClusterAt) -> Any:
        starting = self._starting.get(at.name)
        if starting is None:
            starting = self._starting[at.name] = asyncio.create_task(_started(at))
        try:
            # Callers that wait for it may give up; it continues for later ones.
            return await asyncio.shield(starting)
        except BaseException:
            if starting.done() and self._starting.get(at.name) is starting:
                del self._starting[at.name]
            raise

    async def close(self) -> None:
        for starting in self._starting.values():
            if not starting.done():
                starting.cancel()
        found = await asyncio.gather(*self._starting.values(), return_exceptions=True)
        self._starting.clear()
        for producer in found:
            if not isinstance(producer, BaseException):
                await (producer.close() if isinstance(producer, Producer) else stop(producer))


async def _started(at: ClusterAt) -> Any:
    if at.is_kafka:
        records = library().AIOKafkaProducer(
            bootstrap_servers=at.addresses, acks="all", request_timeout_ms=10_000, **at.kafka
        )
        await start(records)
        return records
    messages = Producer(GROUP, at.addresses, delivery_timeout_ms=10_000, **at.access.options)
    await messages.start()
    return messages
