"""Sends, batches and decisions about transactions that are stored straight from what a read brought.

Whatever is left goes the long way, to which it would have been the same.
"""

from __future__ import annotations

from functools import partial

from orbitmq.broker.ha.promise import Promise
from orbitmq.broker.send.batches_cy import take_batches
from orbitmq.broker.send.frames_cy import TakenSends, take_sends
from orbitmq.broker.send.tables import SendTables, fixed_parts, may_take
from orbitmq.handling.call import Peer, Taken
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.names import NO_SEND_TOPICS
from orbitmq.protocol.remoting.command import LANGUAGE_CODES, LANGUAGE_OTHER
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES
from orbitmq.protocol.remoting.header_cy import decode_frames, encode_command
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.store.queue.room import Room

FRAMES_BEGIN = (b'{"code":310,', b'{"code":37,')
"""Beginnings of the headers of a send, and of the end of a transaction, as Java, Go and C++ peers write
them."""
BATCHES_BEGIN = (b'{"code":320,',)
"""The same of a batch."""


def take_frames(tables: SendTables, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Stores the sends at the start of what a read brought, whole frames, and ends transactions.

    None if there are none.

    Whatever it leaves goes through `send_many` and `end_many`, to which it would have been the same.
    """
    waits = tables.promise.waits
    if not may_take(tables.settings, now) or tables.topics.dirty_names:
        return None
    if waits and tables.promise.lacks_replicas:
        return None
    room = tables.store.room(now, with_property_crc=True)
    if room is None:
        return None
    fixed = fixed_parts(tables)
    try:
        taken = take_sends(
            data,
            tables.topics.by_name,
            NO_SEND_TOPICS,
            fixed.own_properties,
            fixed.template,
            peer.host,
            tables.identity.host,
            waits,
            room,
            tables.stats,
            fixed.answers,
            fixed.waiting,
            now,
        )
        result = None if taken is None else _taken(tables, taken, room, now, waits)
        if taken is not None and (taken.halves or taken.ended):
            tables.transactions.will_note(taken.halves, taken.ended, taken.op_offset, now)
    except BaseException:
        tables.store.leave(room)
        raise
    if taken is None:
        return None
    # A failure before it has stored nothing, and behind it nothing fails.
    tables.store.wrote_into(room)
    if taken.halves or taken.ended:
        tables.transactions.note_taken()
    peer.version = taken.version
    peer.language = LANGUAGE_CODES.get(taken.language, LANGUAGE_OTHER)
    return result


def take_batch_frames(tables: SendTables, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Stores the plain batches at the start of what a read brought, as `take_frames` does."""
    if tables.promise.waits or not may_take(tables.settings, now) or tables.topics.dirty_names:
        return None
    room = tables.store.room(now)
    if room is None:
        return None
    fixed = fixed_parts(tables)
    try:
        taken = take_batches(
            data,
            tables.topics.by_name,
            NO_SEND_TOPICS,
            fixed.template,
            peer.host,
            tables.identity.host,
            room,
            tables.stats,
            fixed.answers,
        )
        if taken is None:
            return None
        by_code = {SendBatchMessage.CODE: (taken.answered, taken.oneway)}
        result = Taken(taken.end, taken.answers, taken.answered, by_code)
    except BaseException:
        tables.store.leave(room)
        raise
    tables.store.wrote_into(room)
    peer.version = taken.version
    peer.language = LANGUAGE_CODES.get(taken.language, LANGUAGE_OTHER)
    return result


def _taken(tables: SendTables, sends: TakenSends, room: Room, now: int, waits: bool) -> Taken:
    by_code = {SendMessageV2.CODE: (sends.answered - sends.ended_answered, sends.oneway - sends.ended_oneway)}
    if sends.ended:
        by_code[EndTransaction.CODE] = sends.ended_answered, sends.ended_oneway
    if not waits:
        return Taken(sends.end, sends.answers, sends.answered, by_code)
    promise = tables.promise
    end_offset = room.segment_start + room.position
    return Taken(
        sends.end,
        sends.answers,
        sends.answered,
        by_code,
        end_offset,
        now + promise.timeout_ms(),
        partial(_too_late, promise, end_offset),
        ResponseCode.FLUSH_SLAVE_TIMEOUT if promise.waits_for_replicas else ResponseCode.FLUSH_DISK_TIMEOUT,
    )


def _too_late(promise: Promise, end_offset: int, answers: bytes) -> bytes:
    """The answers to messages that were stored and are not where they were promised after all this time."""
    code = promise.late_code(end_offset)
    commands, _ = decode_frames(answers, MAX_FRAME_BYTES)
    for command in commands:
        command.code = code
    return b"".join(map(encode_command, commands))
