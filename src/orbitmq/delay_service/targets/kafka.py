"""Topics of Kafka as targets: records in their order, acknowledged by all replicas in sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from orbitmq.delay_service.errors import NoForm
from orbitmq.delay_service.kafka import library, start, stop
from orbitmq.delay_service.options import ClusterAt
from orbitmq.delay_service.rules.delivery import Outgoing, Result, Sent, outgoing_content
from orbitmq.delay_service.rules.forms import as_kafka
from orbitmq.delay_service.targets.missing import Missing
from orbitmq.delay_service.targets.target import LEASE_OVER, always

REQUEST_MS = 10_000
ANSWER_SECONDS = 3 * REQUEST_MS / 1000
"""A record waits for its request for REQUEST_MS, and the request for its answer."""
BATCH_BYTES = 512 << 10
MAX_REQUEST_BYTES = 32 << 20
SENT = Sent(Result.SENT)


class KafkaTarget:
    """Sends to all topics of one cluster. It connects with the first batch, and again after a failure."""

    def __init__(self, cluster: ClusterAt) -> None:
        self._kafka = library()
        self._cluster = cluster
        self._producer: Any = None
        self._starting = asyncio.Lock()
        self._missing = Missing(time.monotonic)
        self.may_send: Callable[[], bool] = always
        errors = self._kafka.errors
        self._about_the_message = (
            errors.MessageSizeTooLargeError,
            errors.RecordTooLargeError,
            errors.RecordListTooLargeError,
            AssertionError,
            ValueError,
            TypeError,
        )
        self._about_the_topic = (
            errors.UnknownTopicOrPartitionError,
            errors.TopicAuthorizationFailedError,
            errors.InvalidTopicError,
        )

    async def start(self) -> None:
        """Nothing: the first batch connects, for the cluster need not be there."""

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop(producer)

    async def _connected(self) -> Any:
        async with self._starting:
            if self._producer is None:
                producer = self._kafka.AIOKafkaProducer(
                    bootstrap_servers=self._cluster.addresses,
                    client_id="orbitmq-delay",
                    acks="all",
                    enable_idempotence=True,
                    request_timeout_ms=REQUEST_MS,
                    max_batch_size=BATCH_BYTES,
                    max_request_size=MAX_REQUEST_BYTES,
                    metadata_max_age_ms=30_000,
                    **self._cluster.kafka,
                )
                await start(producer)
                self._producer = producer
            return self._producer

    async def deliver(self, topic: str, batch: Sequence[Outgoing]) -> list[Sent]:
        try:
            producer = await self._connected()
            partitions = await self._partitions(producer, topic)
        except (self._kafka.errors.KafkaError, OSError, TimeoutError) as error:
            self._missing.unreachable()
            return [Sent(Result.NOT_SENT, _text(error))] * len(batch)
        if not partitions:
            return [self._missing.verdict(topic, f"there is no topic {topic} in {self._cluster.name}")] * len(
                batch
            )
        results: list[Sent] = []
        futures: list[asyncio.Future[Any] | None] = []
        for one in batch:
            future, fate = await self._send(producer, topic, partitions, one)
            futures.append(future)
            results.append(fate)
        fates = iter(await self._fates(topic, [future for future in futures if future is not None]))
        results = [
            fate if future is None else next(fates) for future, fate in zip(futures, results, strict=True)
        ]
        too_large = [n for n, one in enumerate(results) if one.result is Result.REFUSED and futures[n]]
        if len(too_large) > 1:
            # They travelled together: one by one shows which of them the topic does not take.
            for place in too_large:
                results[place] = await self._send_alone(producer, topic, partitions, batch[place])
        if any(one.result is Result.FAILED for one in results):
            await self._begin_anew()
        elif all(one.result is Result.SENT for one in results):
            self._missing.found(topic)
        return results

    async def _partitions(self, producer: Any, topic: str) -> int:
        """The number of partitions of a topic, 0 if the cluster does not know it."""
        known = producer.client.cluster.partitions_for_topic(topic)
        if not known:
            async with asyncio.timeout(REQUEST_MS / 1000):
                metadata = await producer.client.fetch_all_metadata()
            known = metadata.partitions_for_topic(topic)
            if known:
                producer.client.add_topic(topic)
                async with asyncio.timeout(REQUEST_MS / 1000):
                    await producer.client.force_metadata_update()
        return len(known or ())

    async def _send(
        self, producer: Any, topic: str, partitions: int, one: Outgoing
    ) -> tuple[asyncio.Future[Any] | None, Sent]:
        if not self.may_send():
            return None, LEASE_OVER
        try:
            value, key, headers, ordering = as_kafka(outgoing_content(one))
            partition = crc32(ordering.encode()) % partitions if ordering else None
            future = await producer.send(topic, value, key, partition, headers=headers)
        except (NoForm, *self._about_the_message) as error:
            return None, Sent(Result.REFUSED, _text(error))
        except (self._kafka.errors.KafkaError, OSError, TimeoutError) as error:
            return None, self._fate(topic, error)
        return future, SENT

    async def _send_alone(self, producer: Any, topic: str, partitions: int, one: Outgoing) -> Sent:
        future, fate = await self._send(producer, topic, partitions, one)
        if future is None:
            return fate
        return (await self._fates(topic, [future]))[0]

    async def _fates(self, topic: str, futures: Sequence[asyncio.Future[Any]]) -> list[Sent]:
        """The fates of records that the producer has taken.

        It answers in time, unless a batch to another topic has failed and ended it: then never.
        """
        if futures:
            await asyncio.wait(futures, timeout=ANSWER_SECONDS)
        return [self._fate_of(topic, future) for future in futures]

    def _fate_of(self, topic: str, future: asyncio.Future[Any]) -> Sent:
        if not future.done() or future.cancelled():
            return self._fate(topic, TimeoutError("no answer"))
        error = future.exception()
        return SENT if error is None else self._fate(topic, error)

    def _fate(self, topic: str, error: BaseException) -> Sent:
        if isinstance(error, self._about_the_message):
            return Sent(Result.REFUSED, _text(error))
        if isinstance(error, self._about_the_topic):
            return self._missing.verdict(topic, _text(error))
        self._missing.unreachable()
        return Sent(Result.FAILED, _text(error))

    async def _begin_anew(self) -> None:
        """A producer with unanswered batches may send them yet: the next batch gets another producer."""
        await self.close()


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
