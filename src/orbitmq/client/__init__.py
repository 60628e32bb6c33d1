"""Producers and consumers for every RocketMQ cluster, asyncio-native; `orbitmq.sync` is their synchronous
API.
"""

from orbitmq.client import shared
from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.pull_consumer import PullConsumer
from orbitmq.client.core.handlers import BatchHandler, Handler
from orbitmq.client.core.options import ClientOptions, ConsumerOptions, ProducerOptions
from orbitmq.client.delays import AsyncDelayClient, DelayClient
from orbitmq.client.lite.consumer import LiteConsumer
from orbitmq.client.producer.deliveries_cy import Delivery
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionProducer
from orbitmq.client.running import run, serve
from orbitmq.client.shared import *  # noqa: F403

__all__ = [
    "AsyncDelayClient",
    "BatchHandler",
    "ClientOptions",
    "ConsumerOptions",
    "DelayClient",
    "Delivery",
    "Handler",
    "LiteConsumer",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "PushConsumer",
    "TransactionProducer",
    "run",
    "serve",
]
__all__ += shared.__all__
