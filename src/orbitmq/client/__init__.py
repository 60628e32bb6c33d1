"""Producers and consumers for every RocketMQ cluster, asyncio-native; `orbitmq.sync` is their synchronous
API.
"""

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.pull_consumer import PullConsumer, Pulled
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import (
    CannotIterate,
    ClientError,
    DeserializationFailed,
    HandlerTimeout,
    IllegalMessage,
    InvalidArgument,
    InvalidResult,
    MessageTooLarge,
    NotRunning,
    RequestTimeout,
    SeekFailed,
    SendFailed,
    TopicNotFound,
    WrongEventLoop,
)
from orbitmq.client.core.events import ClientEvent, ClientEventKind
from orbitmq.client.core.handlers import RETRY, BatchHandler, Handler, Outcome, Reply, Retry
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult, SendStatus
from orbitmq.client.core.middleware import HandleNext, HandlerCall, Middleware, SendCall, SendNext
from orbitmq.client.core.options import (
    FIRST_OFFSET,
    LAST_OFFSET,
    TIMESTAMP,
    ClientOptions,
    Compression,
    ConsumerOptions,
    ProducerOptions,
)
from orbitmq.client.core.subscription import Sql
from orbitmq.client.producer.deliveries_cy import Delivery
from orbitmq.client.producer.producer import BatchPartlySent, Producer
from orbitmq.client.producer.transactions import TransactionProducer, TransactionResult, TransactionState
from orbitmq.client.running import run, serve
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
    "BatchHandler",
    "BatchPartlySent",
    "BrokerUnknown",
    "CannotIterate",
    "ClientError",
    "ClientEvent",
    "ClientEventKind",
    "ClientOptions",
    "Compression",
    "ConsumerOptions",
    "DeadLetterPolicy",
    "Delivery",
    "DeserializationFailed",
    "HandleNext",
    "Handler",
    "HandlerCall",
    "HandlerTimeout",
    "IllegalMessage",
    "IllegalName",
    "InvalidArgument",
    "InvalidResult",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "Middleware",
    "NoNameServer",
    "NoPermission",
    "NotRunning",
    "Outcome",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
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
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WrongEventLoop",
    "run",
    "serve",
]
