"""Messages of one queue to the request that carries them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

from orbitmq.client.sending.attempts import V5_0_0, without_unique_id
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.spark.sink.encoding import Outgoing

AnySend = SendMessageV2 | SendBatchMessage
_QUEUE_NUMS = 4
"""Every send has to say how many queues a topic should get that does not exist: ours do."""


def goes_alone(message: Outgoing) -> bool:
    """True if brokers refuse the message in a batch."""
    return message.waits_in is not None or _is_retry(message.topic)


@lru_cache(maxsize=64)
def _is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def request_for(messages: Sequence[Outgoing], queue: MessageQueue, group: str) -> AnySend:
    """One message alone, or several as a batch whose own id is that of its first message."""
    now = time.time_ns() // 1_000_000
    first = messages[0]
    if len(messages) == 1:
        kind: type[AnySend] = SendMessageV2
        flag, properties, body = first.flag, first.properties.decode(), first.body
    else:
        kind = SendBatchMessage
        flag, properties = 0, f"UNIQ_KEY\x01{first.unique_id}\x02WAIT\x01true\x02"
        body = encode_batch([(row.flag, row.body, row.properties) for row in messages])
    return kind(
        group,
        queue.topic,
        AUTO_CREATE_TOPIC,
        _QUEUE_NUMS,
        queue.queue_id,
        0,
        now,
        flag,
        properties,
        0,
        False,
        None,
        kind is SendBatchMessage,
        queue.broker_name,
        body,
    )


def for_version(request: AnySend, version: int) -> AnySend:
    """The request as a broker of that version understands it."""
    if isinstance(request, SendBatchMessage) and version < V5_0_0:
        request.properties = without_unique_id(request.properties or "")
    return request
