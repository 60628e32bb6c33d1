"""The store: files. Commit log, consume queues, index, checkpoint, recovery and retention.

It owns no thread, no timer and no socket: its periodic tasks are run by the process around it.
"""

from orbitmq.store.errors import FlushFailed as FlushFailed
from orbitmq.store.errors import StoreCorrupt as StoreCorrupt
from orbitmq.store.errors import StoreError as StoreError
from orbitmq.store.errors import StoreLocked as StoreLocked
from orbitmq.store.errors import StoreUnavailable as StoreUnavailable
from orbitmq.store.figures import StoreFigures as StoreFigures
from orbitmq.store.log.messages import FINAL_REFUSALS as FINAL_REFUSALS
from orbitmq.store.log.messages import Appended as Appended
from orbitmq.store.log.messages import GetResult as GetResult
from orbitmq.store.log.messages import GetStatus as GetStatus
from orbitmq.store.log.messages import PendingMessage as PendingMessage
from orbitmq.store.log.messages import PutStatus as PutStatus
from orbitmq.store.log.messages import QueryResult as QueryResult
from orbitmq.store.options import StoreOptions as StoreOptions
from orbitmq.store.periodic import PeriodicTask as PeriodicTask
from orbitmq.store.queue.lookup import Lookup as Lookup
from orbitmq.store.queue.scan_cy import QueueCursor as QueueCursor
from orbitmq.store.store import MessageStore as MessageStore
