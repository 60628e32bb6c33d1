"""From a message to the request that carries it: checks, properties, compression, batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orbitmq.client.core.errors import IllegalMessage, MessageTooLarge
from orbitmq.client.core.message import Message, check_message
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.options import Compression, ProducerOptions
from orbitmq.protocol.names import KEY_SEPARATOR, KEYS, RETRY_PREFIX, SHARDING_KEY, TAGS, UNIQ_KEY, WAIT
from orbitmq.protocol.records.compression import deflate, flag_of
from orbitmq.protocol.records.ids import UniqueIds
from orbitmq.protocol.records.message import (
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    MAX_PROPERTIES_BYTES,
)
from orbitmq.protocol.records.message_cy import encode_batch
from orbitmq.protocol.records.properties import SEPARATOR_IN_PROPERTY, BadProperty, encode_properties
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2

_KINDS = {
    Compression.ZLIB: COMPRESSION_ZLIB,
    Compression.LZ4: COMPRESSION_LZ4,
    Compression.ZSTD: COMPRESSION_ZSTD,
}

ENTRY_BYTES = 22
"""Bytes that a message in a batch takes beside its body and properties."""


class Preparation:
    """Makes the requests of one producer."""

    def __init__(self, options: ProducerOptions, ids: UniqueIds) -> None:
        self._options = options
        self._ids = ids
        self._max_size = options.max_message_size_bytes

    def check(self, message: Message) -> None:
        """Raises IllegalMessage or IllegalName for what no broker would take."""
        if not isinstance(message, Message):
            check_message(message)
        message.check()
        size = len(message.body)
        if size > self._max_size:
            raise MessageTooLarge(size, self._max_size)

    def single(
        self,
        message: Message,
        now_ms: int,
        more: Mapping[str, str] | None = None,
        *,
        unique_id: str | None = None,
    ) -> tuple[SendMessageV2, str]:
        """The request for one message, and its unique id. Queue and broker are still to be filled in.

        `more` are properties that the client itself gives the message; `unique_id` is the one that it has
        already.
        """
        self.check(message)
        unique_id = unique_id or self._ids.new(now_ms)
        properties = _encoded(message, unique_id, more)
        body, sys_flag = message.body, 0
        options = self._options
        if len(body) >= options.compress_msg_body_over_bytes:
            kind = _KINDS[options.compress_type]
            body, sys_flag = deflate(body, kind, options.compress_level), flag_of(kind)
        return (
            SendMessageV2(
                options.group,
                wrap(options.namespace, message.topic) if options.namespace else message.topic,
                options.create_topic_key,
                options.default_topic_queue_nums,
                0,
                sys_flag,
                now_ms,
                message.flag,
                properties.decode(),
                0,
                False,
                None,
                False,
                None,
                body,
            ),
            unique_id,
        )

    def entry(self, message: Message, now_ms: int) -> tuple[str, bytes]:
        """The unique id and the properties of a message that is to be sent in a batch.

        Raises IllegalMessage, IllegalName.
        """
        self.check(message)
        unique_id = self._ids.new(now_ms)
        return unique_id, _encoded(message, unique_id)

    def batches(
        self, messages: Sequence[Message], now_ms: int
    ) -> Iterator[tuple[SendBatchMessage, list[str]]]:
        """Requests for several messages of one topic, each within the size limit, with their unique ids.

        Everything is checked before the first one is given.
        """
        check_message(messages[0])
        topic, wait = messages[0].topic, messages[0].wait_store_ok
        if topic.startswith(RETRY_PREFIX):
            raise IllegalMessage("nothing can be sent to a retry topic in a batch")
        limit = self._max_size
        part: list[tuple[int, bytes, bytes]] = []
        part_ids: list[str] = []
        parts, ids = [part], [part_ids]
        size = 0
        new_id = self._ids.new
        for message in messages:
            self.check(message)
            unique_id = new_id(now_ms)
            properties = _encoded(message, unique_id)
            body = message.body
            if message.topic != topic:
                raise IllegalMessage(f"a batch has one topic, not {topic} and {message.topic}")
            if message.wait_store_ok is not wait:
                raise IllegalMessage("the messages of a batch have one and the same wait_store_ok")
            if message.is_delayed:
                raise IllegalMessage("a delayed message cannot be sent in a batch")
            needed = ENTRY_BYTES + len(body) + len(properties)
            if needed > limit:
                raise MessageTooLarge(needed, limit)
            if size + needed > limit:
                part, part_ids = [], []
                parts.append(part)
                ids.append(part_ids)
                size = 0
            size += needed
            part.append((message.flag, body, properties))
            part_ids.append(unique_id)
        return (
            (self.batch_of(topic, wait, part, now_ms), part_ids)
            for part, part_ids in zip(parts, ids, strict=True)
        )

    def batch_of(
        self, topic: str, wait: bool, part: list[tuple[int, bytes, bytes]], now_ms: int
    ) -> SendBatchMessage:
        """The request for several messages of one topic: flag, body and properties of each."""
        options = self._options
        own = {UNIQ_KEY: self._ids.new(now_ms), WAIT: "true" if wait else "false"}
        return SendBatchMessage(
            options.group,
            wrap(options.namespace, topic),
            options.create_topic_key,
            options.default_topic_queue_nums,
            0,
            0,
            now_ms,
            0,
            encode_properties(own).decode(),
            0,
            False,
            None,
            True,
            None,
            encode_batch(part),
        )


def _encoded(message: Message, unique_id: str, more: Mapping[str, str] | None = None) -> bytes:
    if not (
        message.properties
        or more
        or message.delay_level
        or message.delay_ms is not None
        or message.deliver_at_ms is not None
    ):
        return _encoded_plain(message, unique_id)
    try:
        all_properties = message.wire_properties(unique_id)
        if more:
            all_properties.update(more)
        properties = encode_properties(all_properties)
    except BadProperty as error:
        raise IllegalMessage(str(error)) from None
    return _within_limit(properties)


def _encoded_plain(message: Message, unique_id: str) -> bytes:
    """The same for a message with no properties but those of its fields: what nearly all are."""
    wait = "true" if message.wait_store_ok else "false"
    if not (message.keys or message.tags or message.sharding_key):
        return f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01{wait}\x02".encode()
    text, count = "", 0
    if message.keys:
        text, count = f"{KEYS}\x01{KEY_SEPARATOR.join(message.keys)}\x02", 1
    if message.tags:
        text, count = f"{text}{TAGS}\x01{message.tags}\x02", count + 1
    if message.sharding_key:
        text, count = f"{text}{SHARDING_KEY}\x01{message.sharding_key}\x02", count + 1
    if text.count("\x02") != count or "\x00" in text:
        raise IllegalMessage(SEPARATOR_IN_PROPERTY)
    return _within_limit(f"{text}UNIQ_KEY\x01{unique_id}\x02WAIT\x01{wait}\x02".encode("utf-8", "replace"))


def _within_limit(properties: bytes) -> bytes:
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise IllegalMessage(
            f"{len(properties)} bytes of keys, tags and properties: {MAX_PROPERTIES_BYTES} can be stored"
        )
    return properties
