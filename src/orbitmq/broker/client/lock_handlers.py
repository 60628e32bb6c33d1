"""Queue locks of ordered consumers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import Queue, QueueLocks
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result, in_turns
from orbitmq.protocol.bodies.queue import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    UnlockBatchRequestBody,
)
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from orbitmq.protocol.schema.declare import JsonReply, Void


@dataclass(slots=True)
class LockTables:
    """The locks, and who is here."""

    locks: QueueLocks
    clients: ClientTable


QUEUES_PER_TURN = 2_000
"""Queues that are locked or unlocked in one turn, a few ms; other requests follow."""


@handlers(LockBatchMq)
def lock_batch_mq(tables: LockTables, call: Call[LockBatchMq], now: int) -> Result:
    """Locks what can be had of the queues a client asks for, and says which it holds."""
    return in_turns(_lock(tables, call.request.body, now), now)


def _lock(tables: LockTables, body: LockBatchRequestBody, now: int) -> Generator[None, None, Result]:
    def is_gone(client_id: str) -> bool:
        members = tables.clients.consumers.get(body.consumer_group)
        return members is None or members.find_client(client_id) is None

    held: list[MessageQueue] = []
    for queues in _parts(body.mq_set):
        locked = tables.locks.lock(body.consumer_group, body.client_id, map(_key, queues), now, is_gone)
        held += [MessageQueue(*queue) for queue in locked]
        if len(queues) == QUEUES_PER_TURN:
            yield
    return JsonReply(LockBatchResponseBody(lock_ok_mq_set=held))


@handlers(UnlockBatchMq)
def unlock_batch_mq(tables: LockTables, call: Call[UnlockBatchMq], now: int) -> Result:
    """Gives up queues that a client holds."""
    return in_turns(_unlock(tables, call.request.body), now)


def _unlock(tables: LockTables, body: UnlockBatchRequestBody) -> Generator[None, None, Result]:
    for queues in _parts(body.mq_set):
        tables.locks.unlock(body.consumer_group, body.client_id, map(_key, queues))
        if len(queues) == QUEUES_PER_TURN:
            yield
    return Void()


def _parts(queues: list[MessageQueue]) -> Iterator[list[MessageQueue]]:
    for start in range(0, len(queues), QUEUES_PER_TURN):
        yield queues[start : start + QUEUES_PER_TURN]


def _key(queue: MessageQueue) -> Queue:
    return queue.topic, queue.broker_name, queue.queue_id
