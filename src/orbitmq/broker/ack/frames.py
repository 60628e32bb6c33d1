"""Pops and acknowledgements of one read, in their order.

A consumer asks for more as soon as it has room, in the middle of acknowledging. A pop is handled as any other
request, here only so that the acknowledgements behind it need not be cut into requests.
"""

from __future__ import annotations

import logging

from orbitmq.broker.ack.handlers import ACK_BEGINS, PopAckTables, handle_ack_frames
from orbitmq.broker.pop.handlers import PopTables, pop_message
from orbitmq.handling.call import Call, HandledFrames, Peer, Result
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import FRAME_HEAD_BYTES, MAX_FRAME_BYTES
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.pop import AckMessage, PopMessage

log = logging.getLogger(__name__)

POP_BEGINS = b'{"code":200050,'
"""Beginning of a pop's header as Java, Go and C++ peers write it."""

POPS_AT_ONCE = 8
"""So many of one read are handled at once; then it is looked whether the peer takes its answers."""


def handle_pop_frames(
    pops: PopTables, acks: PopAckTables, data: bytes, peer: Peer, now: int
) -> HandledFrames | None:
    """Handles the pops and acknowledgements at the start of what a read brought, whole frames; None if there
    are none.

    The rest goes through `pop_message` and `ack_many`, with the same result.
    """
    end = acknowledged = durable = deadline = 0
    answers: list[bytes] = []
    results: list[tuple[Command, Result]] = []
    while True:
        if data.startswith(ACK_BEGINS, end + FRAME_HEAD_BYTES):
            try:
                handled = handle_ack_frames(acks, data[end:], peer, now)
            except Exception:
                # An earlier pop's answer has to leave: its messages are hidden from everybody else.
                log.exception("acknowledgements of %s could not be handled at once", peer.address)
                break
            if handled is None:
                break
            end += handled.end
            answers.append(handled.answers)
            acknowledged += handled.answered
            durable, deadline = handled.durable, handled.deadline
            continue
        # Under SYNC_FLUSH the answers to acknowledgements wait, and a pop's would have to wait with them.
        if (
            pops.promise.waits
            or len(results) >= POPS_AT_ONCE
            or not data.startswith(POP_BEGINS, end + FRAME_HEAD_BYTES)
        ):
            break
        behind = end + 4 + int.from_bytes(data[end : end + 4], "big")
        popped = _pop(pops, data[end:behind], peer, now) if behind <= len(data) else None
        if popped is None:
            break
        end = behind
        results.append(popped)
    if not end:
        return None
    by_code = {AckMessage.CODE: (acknowledged, 0)} if acknowledged else {}
    return HandledFrames(end, b"".join(answers), acknowledged, by_code, durable, deadline, results=results)


def _pop(pops: PopTables, frame: bytes, peer: Peer, now: int) -> tuple[Command, Result] | None:
    """Handles a frame with a pop; None if the general path is to handle it."""
    try:
        ((command,), _) = decode_frames(frame, MAX_FRAME_BYTES)
        if command.code != PopMessage.CODE or command.flag & 3:
            return None
        peer.version = command.version
        peer.language = command.language
        return command, pop_message(pops, Call(PopMessage.from_command(command), command, peer), now)
    except Exception:
        return None  # the general path meets it again, and answers the peer
