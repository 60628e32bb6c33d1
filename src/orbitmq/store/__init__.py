"""The store room: files. Commit log, consume queues, index, checkpoint, recovery and retention.

It owns no thread, no timer and no socket: what has to come round is handed out as chores.
"""

from orbitmq.store.chores import Chore
from orbitmq.store.errors import (
    FlushFailed,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreUnavailable,
)
from orbitmq.store.figures import StoreFigures
from orbitmq.store.messages import Appended, GetResult, GetStatus, PendingMessage, PutStatus, QueryResult
from orbitmq.store.options import StoreOptions
from orbitmq.store.scan_cy import QueueCursor
from orbitmq.store.store import MessageStore

__all__ = [
    "Appended",
    "Chore",
    "FlushFailed",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "PendingMessage",
    "PutStatus",
    "QueryResult",
    "QueueCursor",
    "StoreCorrupt",
    "StoreError",
    "StoreFigures",
    "StoreLocked",
    "StoreOptions",
    "StoreUnavailable",
]
