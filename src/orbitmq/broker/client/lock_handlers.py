"""Queue locks of ordered consumers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import Queue, QueueLocks
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call
from orbitmq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from orbitmq.protocol.requests.lock import LockBatchMq, LockBatchReply, UnlockBatchMq
from orbitmq.protocol.schema.declare import Reply, Void


@dataclass(slots=True)
class LockTables:
    """The locks, and who is here."""

    locks: QueueLocks
    clients: ClientTable


@handlers(LockBatchMq)
def lock_batch_mq(tables: LockTables, call: Call[LockBatchMq], now: int) -> Reply:
    """Locks what can be had of the queues a client asks for, and says which it holds."""
    body = call.request.body
    members = tables.clients.consumers.get(body.consumer_group)

    def is_gone(client_id: str) -> bool:
        return members is None or members.find_client(client_id) is None

    held = tables.locks.lock(body.consumer_group, body.client_id, map(_key, body.mq_set), now, is_gone)
    return LockBatchReply(body=LockBatchResponseBody(lock_ok_mq_set=[MessageQueue(*queue) for queue in held]))


@handlers(UnlockBatchMq)
def unlock_batch_mq(tables: LockTables, call: Call[UnlockBatchMq], now: int) -> Reply:
    """Gives up queues that a client holds."""
    body = call.request.body
    tables.locks.unlock(body.consumer_group, body.client_id, map(_key, body.mq_set))
    return Void()


def _key(queue: MessageQueue) -> Queue:
    return queue.topic, queue.broker_name, queue.queue_id
