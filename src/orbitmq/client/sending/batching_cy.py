"""Messages that go in one request: what may go together, and the bodies of batches.

Hot: every message of a batch passes here.
"""

# mypy: disable-error-code="untyped-decorator,unused-ignore"

from __future__ import annotations

from collections.abc import Sequence

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.client.core.errors import IllegalMessage, MessageTooLarge
from orbitmq.client.core.outgoing_cy import Message, check_message, encoded_properties
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.ids import UniqueIds

if cython.compiled:
    from cython.cimports.orbitmq.client.core.outgoing_cy import (  # type: ignore[import-not-found, no-redef]
        Message,
        encoded_properties,
    )

ENTRY_BYTES = 22
"""Bytes that a message in a batch takes beside its body and properties."""


def batch_parts(
    messages: Sequence[Message], limit: cython.Py_ssize_t, ids: UniqueIds, now_ms: int
) -> list[tuple[bytes, list[str]]]:
    """The bodies of batches, each within `limit` bytes, with the unique ids of the messages in them.

    Raises IllegalMessage, IllegalName for a message that no batch takes; the messages have one topic.
    """
    check_message(messages[0])
    topic = messages[0].topic
    wait = messages[0].wait_store_ok
    if topic.startswith(RETRY_PREFIX):
        raise IllegalMessage("nothing can be sent to a retry topic in a batch")
    part: list[tuple[int, bytes, bytes]] = []
    part_ids: list[str] = []
    parts = [(part, part_ids)]
    size: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    new_id = ids.new
    for one in messages:
        if not isinstance(one, Message):
            check_message(one)
        message: Message = one
        message.check()
        body = message.body
        if len(body) > limit:
            raise MessageTooLarge(len(body), limit)
        unique_id: str = new_id(now_ms)
        properties: bytes = encoded_properties(message, unique_id)
        if message.topic != topic:
            raise IllegalMessage(f"a batch has one topic, not {topic} and {message.topic}")
        if message.wait_store_ok is not wait:
            raise IllegalMessage("the messages of a batch have one and the same wait_store_ok")
        if message.goes_alone:
            kind = "delayed message" if message.is_delayed else "message of a lite topic"
            raise IllegalMessage(f"a {kind} cannot be sent in a batch: use send, or submit")
        needed = ENTRY_BYTES + len(body) + len(properties)
        if needed > limit:
            raise MessageTooLarge(needed, limit)
        if size + needed > limit:
            part, part_ids = [], []
            parts.append((part, part_ids))
            size = 0
        size += needed
        part.append((message.flag, body, properties))
        part_ids.append(unique_id)
    return [(encode_batch(part), part_ids) for part, part_ids in parts]
