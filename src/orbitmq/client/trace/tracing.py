"""Message trace: what became of messages, sent as messages of its own to a trace topic."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Iterable, Sequence

from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult, SendStatus
from orbitmq.client.core.options import ClientOptions, ProducerOptions
from orbitmq.client.sending.attempts import Sender
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.trace.records import (
    Handled,
    MessageKind,
    TraceRecord,
    after_handling,
    before_handling,
    published,
)
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import KEY_SEPARATOR, MAX_GROUP_CHARACTERS, MSG_REGION, TRACE_ON

log = logging.getLogger(__name__)

QUEUE_SIZE = 2048
"""Records that wait; further ones are lost, for a trace must not hold up what it traces."""
BATCH_SIZE = 10
FLUSH_MS = 5000
MAX_BODY_BYTES = 128_000
MAX_KEYS_BYTES = 24_000
"""Limit of the ids and keys by which one message of the trace is found, with blanks between them.

Brokers take messages with 31,743 bytes of properties in all.
"""
TIMEOUT_MS = 5000


class Tracer:
    """Collects and sends the trace of one producer or consumer."""

    def __init__(self, options: ClientOptions, instance: ClientInstance, purpose: str) -> None:
        group = f"_INNER_TRACE_PRODUCER-{options.group}-{purpose}-0".replace("%", "-")[:MAX_GROUP_CHARACTERS]
        own = ProducerOptions(group, options.namesrv, send_msg_timeout_ms=TIMEOUT_MS)
        self._options = options
        self._instance = instance
        self._sender = Sender(instance, own)
        self._preparation = Preparation(own, instance.unique_ids)
        self._records: deque[TraceRecord] = deque()
        self._enough = asyncio.Event()
        self.lost = 0
        """Records that were not sent, since too many waited or no broker took them."""

    def start(self) -> None:
        """Begins to send what is collected, every 5 s and as soon as it is enough."""
        self._instance.tasks.every(FLUSH_MS, self.flush, "message trace", wake=self._enough)

    def sent(
        self,
        messages: Sequence[Message],
        results: Sequence[SendResult],
        sizes: Iterable[int],
        cost_ms: int,
        extra: dict[str, str] | None,
    ) -> None:
        """Notes messages that a broker has taken; `extra` is what its answer said besides."""
        if (extra or {}).get(TRACE_ON) == "false":
            return
        for message, result, size in zip(messages, results, sizes, strict=True):
            if message.topic.startswith(self._options.trace_topic):
                continue
            self._add(
                published(
                    at_ms=now_ms() - cost_ms,
                    region=result.region_id,
                    group=self._options.shown_group,
                    topic=message.topic,
                    message_id=result.message_id,
                    tags=message.tags,
                    keys=KEY_SEPARATOR.join(message.keys),
                    store_host=self._instance.routes.master_of(result.queue) or "",
                    body_length=size,
                    cost_ms=cost_ms,
                    kind=MessageKind.DELAYED if message.is_delayed else MessageKind.NORMAL,
                    offset_message_id=result.offset_message_id,
                    success=result.status is SendStatus.SEND_OK,
                )
            )

    def handling(self, message: ReceivedMessage) -> str | None:
        """Notes that a message is about to be handled; gives what `handled` wants, None: it is not traced."""
        properties = message.properties
        region = properties.get(MSG_REGION)
        if region is None or properties.get(TRACE_ON) == "false":
            return None
        if message.topic.startswith(self._options.trace_topic):
            return None
        request_id = self._instance.unique_ids.new(now_ms())
        self._add(
            before_handling(
                at_ms=now_ms(),
                region=region,
                group=self._options.shown_group,
                topic=message.topic,
                request_id=request_id,
                message_id=message.message_id,
                retry_times=message.reconsume_times,
                keys=KEY_SEPARATOR.join(message.keys),
            )
        )
        return request_id

    def handled(self, message: ReceivedMessage, request_id: str, cost_ms: int, handled: Handled) -> None:
        """Notes what came of handling it."""
        self._add(
            after_handling(
                at_ms=now_ms(),
                group=self._options.shown_group,
                topic=message.topic,
                request_id=request_id,
                message_id=message.message_id,
                cost_ms=cost_ms,
                keys=KEY_SEPARATOR.join(message.keys),
                handled=handled,
            )
        )

    def _add(self, record: TraceRecord) -> None:
        if len(self._records) >= QUEUE_SIZE:
            self.lost += 1
            return
        self._records.append(record)
        if len(self._records) >= BATCH_SIZE:
            self._enough.set()

    async def close(self) -> None:
        """Sends what is left, as far as that takes no longer than one message may: the rest is lost."""
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await self.flush()
        except TimeoutError:
            log.warning("not all of the message trace was sent within %d ms", TIMEOUT_MS)

    async def flush(self) -> None:
        """Sends everything that was collected; a trace that no broker takes is lost."""
        records = [self._records.popleft() for _ in range(len(self._records))]
        for message, count in in_messages(self._options.trace_topic, records):
            request, _ = self._preparation.single(message, now_ms())
            try:
                await self._sender.send(request, None, TIMEOUT_MS)
            except OrbitError as error:
                self.lost += count
                self._instance.report("message trace", error)
            else:
                self._instance.recovered("message trace")


def in_messages(trace_topic: str, records: Iterable[TraceRecord]) -> list[tuple[Message, int]]:
    """The messages that carry records, with how many each: those about one topic together, up to a size of
    their texts and of their keys.
    """
    by_topic: dict[str, list[TraceRecord]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    messages = []
    for about in by_topic.values():
        part: list[TraceRecord] = []
        size = keys_size = 0
        for record in about:
            length, keys_length = len(record.text.encode()), sum(map(_room_of, record.keys))
            if part and (size + length > MAX_BODY_BYTES or keys_size + keys_length > MAX_KEYS_BYTES):
                messages.append((_carrying(trace_topic, part), len(part)))
                part, size, keys_size = [], 0, 0
            part.append(record)
            size += length
            keys_size += keys_length
        messages.append((_carrying(trace_topic, part), len(part)))
    return messages


def _room_of(key: str) -> int:
    return len(key.encode()) + 1


def _carrying(trace_topic: str, records: list[TraceRecord]) -> Message:
    keys = list(dict.fromkeys(key for record in records for key in record.keys))
    if len(records) == 1:  # one message may have more keys than there is room for beside its id
        room = itertools.accumulate(map(_room_of, keys))
        keys = [key for key, size in zip(keys, room, strict=True) if size <= MAX_KEYS_BYTES]
    return Message(trace_topic, "".join(record.text for record in records), keys=keys)
