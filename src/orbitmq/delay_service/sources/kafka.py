"""Orders from a topic of Kafka. The service keeps the positions; the group's offsets follow for operators."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from orbitmq.delay_service.kafka import library, stop
from orbitmq.delay_service.options import ClusterAt
from orbitmq.delay_service.rules.forms import split_headers
from orbitmq.delay_service.rules.intake import Queue, SourceMessage
from orbitmq.delay_service.sources.reading import SourceState, Taker, begin_at

log = logging.getLogger(__name__)

GROUP = "orbitmq_delay"
POLL_RECORDS = 2000
POLL_MS = 500
LOOK_SECONDS = 10.0
COMMIT_SECONDS = 5.0
REQUEST_MS = 10_000
LONGEST_PAUSE_SECONDS = 5.0
LOG_APPEND_TIME = 1
MOST_REPLICAS = 3
"""Replicas of topics that the service makes, fewer where there are fewer brokers."""


@dataclass(eq=False, repr=False)
class KafkaSource:
    """Reads all partitions of a topic for as long as it runs."""

    _cluster: ClusterAt
    _topic: str
    _taker: Taker
    _: KW_ONLY
    partitions: int
    make_topic: bool
    allow_create_time: bool = False
    group: str = GROUP

    def __post_init__(self) -> None:
        self._kafka = library()
        self._ends: dict[Any, int] = {}
        self.state = SourceState(f"{self._cluster.name}/{self._topic}")

    async def run(self) -> None:
        """Reads until it is cancelled."""
        pause = 0.2
        while True:
            consumer = self._kafka.AIOKafkaConsumer(
                bootstrap_servers=self._cluster.addresses,
                group_id=self.group,
                client_id="orbitmq-delay",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                request_timeout_ms=REQUEST_MS,
                max_poll_records=POLL_RECORDS,
                metadata_max_age_ms=10_000,
                **self._cluster.kafka,
            )
            try:
                await consumer.start()
                pause = 0.2
                await self._follow(consumer)
            except (self._kafka.errors.KafkaError, OSError, TimeoutError) as error:
                self._failed(error)
            finally:
                await stop(consumer)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _failed(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self.state.problem:
            log.warning("source %s: %s", self.state.name, text)
        self.state.problem = text

    async def _follow(self, consumer: Any) -> None:
        look_at = commit_at = 0.0
        offsets: dict[Any, int] = {}
        self._ends.clear()  # the topic may have fewer partitions than when it was read before
        dirty: set[Any] = set()
        while True:
            now = time.monotonic()
            if now >= look_at:
                await self._assign(consumer, offsets)
                look_at = now + LOOK_SECONDS
            found = await consumer.getmany(timeout_ms=POLL_MS)
            for partition, records in found.items():
                messages = [self._read(one) for one in records]
                offsets[partition] = records[-1].offset + 1
                await self._taker.take(self._named(partition), messages, offsets[partition])
                dirty.add(partition)
            for partition, end in self._ends.items():
                # Markers of transactions have offsets and are no records: the consumer's place counts.
                if offsets[partition] >= end or await consumer.position(partition) >= end:
                    self.state.behind[self._named(partition)] = False
            self._ends = {one: end for one, end in self._ends.items() if self.state.behind[self._named(one)]}
            if dirty and now >= commit_at:
                await self._taker.synced()
                await consumer.commit({one: offsets[one] for one in dirty})
                dirty.clear()
                commit_at = now + COMMIT_SECONDS

    async def _assign(self, consumer: Any, offsets: dict[Any, int]) -> None:
        """Begins to read partitions that are new."""
        topics = await consumer.topics()
        if self._topic not in topics:
            if self.make_topic:
                await ensure_topics(self._cluster, [self._topic], self.partitions)
            raise self._kafka.errors.UnknownTopicOrPartitionError(self._topic)
        numbers = consumer.partitions_for_topic(self._topic) or set()
        every = {self._kafka.TopicPartition(self._topic, number) for number in numbers}
        new = every - offsets.keys()
        if not new and not self.state.problem:
            return
        first = await consumer.beginning_offsets(list(new))
        ends = await consumer.end_offsets(list(new))
        consumer.assign(sorted(every))
        for partition in new:
            named = self._named(partition)
            offsets[partition] = begin_at(self.state, self._taker, named, first[partition], ends[partition])
            self.state.behind.setdefault(named, True)
            self._ends[partition] = ends[partition]
        for partition, offset in offsets.items():
            consumer.seek(partition, offset)
        self.state.problem = ""

    def _named(self, partition: Any) -> Queue:
        return Queue(self._cluster.name, self._topic, str(partition.partition))

    def _read(self, record: Any) -> SourceMessage:
        control, content, problem = split_headers(list(record.headers), record.value, record.key)
        by_broker = record.timestamp_type == LOG_APPEND_TIME or self.allow_create_time
        stored = record.timestamp if by_broker else None
        return SourceMessage(
            record.offset, stored, control, content, problem, 0 if by_broker else record.timestamp
        )


async def ensure_topics(cluster: ClusterAt, topics: Sequence[str], partitions: int) -> None:
    """Makes topics that are missing, stamped by the broker. Raises KafkaError."""
    kafka = library()
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(
        bootstrap_servers=cluster.addresses, request_timeout_ms=REQUEST_MS, **cluster.kafka
    )
    try:
        await admin.start()
        there = await admin.list_topics()
        brokers = len((await admin.describe_cluster())["brokers"])
        for topic in topics:
            if topic in there:
                continue
            new = NewTopic(
                topic,
                num_partitions=partitions,
                replication_factor=min(MOST_REPLICAS, max(1, brokers)),
                topic_configs={"message.timestamp.type": "LogAppendTime"},
            )
            answer = await admin.create_topics([new])
            for made in answer.topic_errors:
                code = made[1]
                if code not in (0, kafka.errors.TopicAlreadyExistsError.errno):
                    raise kafka.errors.for_code(code)(f"topic {topic} cannot be made: {made[2:]}")
            log.info("topic %s was made in cluster %s", topic, cluster.name)
    finally:
        try:
            await admin.close()
        except Exception as error:
            log.debug("a client of Kafka did not end in order: %s", error)
