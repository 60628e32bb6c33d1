"""The store: files. Commit log, consume queues, index, checkpoint, recovery and retention.

It owns no thread, no timer and no socket: its periodic tasks are run by the process around it.
"""

from orbitmq.store.errors import (
    FlushFailed,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreUnavailable,
)
from orbitmq.store.figures import StoreFigures
from orbitmq.store.log.messages import (
    FINAL_REFUSALS,
    Appended,
    GetResult,
    GetStatus,
    PendingMessage,
    PutStatus,
    QueryResult,
)
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.queue.scan_cy import QueueCursor
from orbitmq.store.store import MessageStore

__all__ = [
    "FINAL_REFUSALS",
    "Appended",
    "FlushFailed",
    "GetResult",
    "GetStatus",
    "Lookup",
    "MessageStore",
    "PendingMessage",
    "PeriodicTask",
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
