"""From a message to the request that carries it: checks, properties, compression, batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orbitmq.client.core.errors import MessageTooLarge
from orbitmq.client.core.message import Message, check_message
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.options import Compression, ProducerOptions
from orbitmq.client.core.outgoing_cy import encoded_properties
from orbitmq.client.sending.batching_cy import batch_parts
from orbitmq.protocol.names import UNIQ_KEY, WAIT
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES, deflated_if_smaller
from orbitmq.protocol.records.ids import UniqueIds
from orbitmq.protocol.records.message import COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2

_KINDS = {
    Compression.ZLIB: COMPRESSION_ZLIB,
    Compression.LZ4: COMPRESSION_LZ4,
    Compression.ZSTD: COMPRESSION_ZSTD,
}


class Preparation:
    """Makes the requests of one producer."""

    def __init__(self, options: ProducerOptions, ids: UniqueIds) -> None:
        self._options = options
        self._ids = ids
        self.new_id = ids.new
        """Gives the unique id of one more message, for the time in ms."""
        self._max_size = options.max_message_size_bytes

    def check(self, message: Message) -> None:
        """Raises IllegalMessage or IllegalName for what no broker would take as it is."""
        if not isinstance(message, Message):
            check_message(message)
        message.check()
        self._check_size(message.body)

    def _check_size(self, body: bytes) -> None:
        if len(body) > self._max_size:
            raise MessageTooLarge(len(body), self._max_size)

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
        already. The limit of the size is for the body that is sent: compressed, if it is large and becomes
        smaller by that.
        """
        if not isinstance(message, Message):
            check_message(message)
        message.check()
        unique_id = unique_id or self._ids.new(now_ms)
        properties = encoded_properties(message, unique_id, more)
        body, sys_flag = message.body, 0
        options = self._options
        if len(body) >= options.compress_msg_body_over_bytes:
            if len(body) > DEFAULT_MAX_INFLATED_BYTES:  # unless told otherwise, readers refuse it
                raise MessageTooLarge(len(body), DEFAULT_MAX_INFLATED_BYTES)
            body, sys_flag = deflated_if_smaller(body, _KINDS[options.compress_type], options.compress_level)
        self._check_size(body)
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
        return unique_id, encoded_properties(message, unique_id)

    def batches(
        self, messages: Sequence[Message], now_ms: int
    ) -> Iterator[tuple[SendBatchMessage, list[str]]]:
        """Requests for several messages of one topic, each within the size limit, with their unique ids.

        Everything is checked before the first one is given.
        """
        parts = batch_parts(messages, self._max_size, self._ids, now_ms)
        topic, wait = messages[0].topic, messages[0].wait_store_ok
        return ((self.batch_of(topic, wait, body, now_ms), unique_ids) for body, unique_ids in parts)

    def batch_of(self, topic: str, wait: bool, body: bytes, now_ms: int) -> SendBatchMessage:
        """The request for several messages of one topic, which `body` has."""
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
            body,
        )
