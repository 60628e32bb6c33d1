"""Public names that the asynchronous and the synchronous client have in common."""

from orbitmq.client.consumer.pull_consumer import Pulled
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import (
    BodyTooLarge,
    CancelledFromOutside,
    CannotIterate,
    ClientError,
    DeserializationFailed,
    FiltersDiffer,
    HandlerTimeout,
    IllegalMessage,
    InvalidArgument,
    InvalidResult,
    LiteQuotaExceeded,
    MessageStays,
    MessageTooLarge,
    NotRunning,
    PermanentFailure,
    RequestTimeout,
    SeekFailed,
    SendFailed,
    TopicNotFound,
    UnreadableBody,
    WrongEventLoop,
)
from orbitmq.client.core.events import ClientEvent, ClientEventKind
from orbitmq.client.core.handlers import RETRY, HoldBack, Outcome, Reply, Retry
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult, SendStatus, UnreadableMessage
from orbitmq.client.core.middleware import HandleNext, HandlerCall, Middleware, SendCall, SendNext
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET, TIMESTAMP, Compression
from orbitmq.client.core.subscription import Sql
from orbitmq.client.producer.producer import BatchPartlySent
from orbitmq.client.producer.transactions import TransactionResult, TransactionState
from orbitmq.client.sending.attempts import BrokerUnknown
from orbitmq.net.errors import BadAddress, NoNameServer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import NoPermission
from orbitmq.protocol.names import IllegalName

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "BadAddress",
    "BatchPartlySent",
    "BodyTooLarge",
    "BrokerUnknown",
    "CancelledFromOutside",
    "CannotIterate",
    "ClientError",
    "ClientEvent",
    "ClientEventKind",
    "Compression",
    "DeadLetterPolicy",
    "DeserializationFailed",
    "FiltersDiffer",
    "HandleNext",
    "HandlerCall",
    "HandlerTimeout",
    "HoldBack",
    "IllegalMessage",
    "IllegalName",
    "InvalidArgument",
    "InvalidResult",
    "LiteQuotaExceeded",
    "Message",
    "MessageQueue",
    "MessageStays",
    "MessageTooLarge",
    "Middleware",
    "NoNameServer",
    "NoPermission",
    "NotRunning",
    "Outcome",
    "PermanentFailure",
    "Pulled",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SeekFailed",
    "SendCall",
    "SendFailed",
    "SendNext",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionResult",
    "TransactionState",
    "UnreadableBody",
    "UnreadableMessage",
    "WrongEventLoop",
]
