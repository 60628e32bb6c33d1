"""The fast paths of sends, batches and decisions about transactions: they are stored straight from a read.

Everything else goes the general path, and would have come to the same.
"""

from __future__ import annotations

from functools import partial

from orbitmq.broker.role.promise import Promise
from orbitmq.broker.send.frames_cy import handle_sends
from orbitmq.broker.send.tables import SendTables, fixed_parts
from orbitmq.handling.call import HandledFrames, Peer
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import LANGUAGE_CODES, LANGUAGE_OTHER
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES
from orbitmq.protocol.remoting.header_cy import decode_frames, encode_command

FRAMES_BEGIN = (b'{"code":310,', b'{"code":320,', b'{"code":37,')
"""Beginnings of the headers of a send, of a batch, and of the end of a transaction, as Java, Go and C++ peers
write them."""


def handle_send_frames(tables: SendTables, data: bytes, peer: Peer, now: int) -> HandledFrames | None:
    """Stores the sends at the start of what a read brought, whole frames, and ends transactions.

    None if there are none.

    Everything else goes the general path, through `send_many` and `end_many`, and would have come to the
    same.
    """
    promise = tables.promise
    waits_for_replicas = promise.waits_for_replicas
    waits = waits_for_replicas or promise.waits_for_disk
    if not tables.admission.takes_from_anybody(now) or tables.topics.dirty_names:
        return None
    if waits and promise.lacks_replicas:
        return None
    writer = tables.store.appending.reserve(now)
    if writer is None:
        return None
    try:
        handled = handle_sends(
            data,
            tables.admission.open_queues(),
            fixed_parts(tables),
            peer.host,
            tables.identity.host,
            waits,
            writer,
            tables.stats,
            now,
        )
        if handled is None:
            return None
        result = HandledFrames(handled.end, handled.answers, handled.answered, handled.by_code)
        if waits:
            result.durable = end_offset = writer.segment_start + writer.position
            result.deadline = now + promise.timeout_ms()
            result.late = partial(_too_late, promise, end_offset)
            result.late_code = (
                ResponseCode.FLUSH_SLAVE_TIMEOUT if waits_for_replicas else ResponseCode.FLUSH_DISK_TIMEOUT
            )
        if handled.halves or handled.ended:
            tables.transactions.will_note(handled.halves, handled.ended, handled.op_offset, now)
    except BaseException:
        tables.store.appending.rollback(writer)
        raise
    # A failure before it has stored nothing, and behind it nothing fails.
    tables.store.appending.commit(writer)
    if handled.halves or handled.ended:
        tables.transactions.note_handled()
    peer.version = handled.version
    peer.language = LANGUAGE_CODES.get(handled.language, LANGUAGE_OTHER)
    return result


def _too_late(promise: Promise, end_offset: int, answers: bytes) -> bytes:
    """The answers to messages that were stored and are not where they were promised after all this time."""
    code = promise.late_code(end_offset)
    commands, _ = decode_frames(answers, MAX_FRAME_BYTES)
    for command in commands:
        command.code = code
    return b"".join(map(encode_command, commands))
