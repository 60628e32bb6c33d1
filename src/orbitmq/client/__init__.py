"""Producers and consumers for every RocketMQ cluster, asyncio-native; `orbitmq.sync` is their other face."""

from orbitmq.client.consumer import PushConsumer
from orbitmq.client.errors import (
    CannotIterate,
    ClientError,
    IllegalMessage,
    MessageTooLarge,
    NoNameServer,
    NotRunning,
    RequestTimeout,
    SendFailed,
    TopicNotFound,
)
from orbitmq.client.handlers import RETRY, Handler, Reply, Retry
from orbitmq.client.message import Message, ReceivedMessage, SendResult, SendStatus
from orbitmq.client.options import (
    FIRST_OFFSET,
    LAST_OFFSET,
    TIMESTAMP,
    ClientOptions,
    Compression,
    ConsumerOptions,
    ProducerOptions,
)
from orbitmq.client.producer import BatchPartlySent, Producer
from orbitmq.client.pull_consumer import PullConsumer, Pulled
from orbitmq.client.subscription import Sql
from orbitmq.client.transactions import TransactionProducer, TransactionResult, TransactionState
from orbitmq.protocol.bodies.queue import MessageQueue

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "BatchPartlySent",
    "CannotIterate",
    "ClientError",
    "ClientOptions",
    "Compression",
    "ConsumerOptions",
    "Handler",
    "IllegalMessage",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "NoNameServer",
    "NotRunning",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]
