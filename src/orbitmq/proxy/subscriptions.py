"""The selection of messages that a client asks for."""

from __future__ import annotations

from orbitmq.client.core.subscription import Sql, subscription
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.errors import OrbitError
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb


def subscription_of(topic: str, expression: pb.FilterExpression) -> SubscriptionData:
    """A topic's selection by tags or by SQL92. Raises ProxyRefused."""
    text = expression.expression
    try:
        return subscription(topic, Sql(text) if expression.type == pb.SQL else text or None, 0)
    except (OrbitError, ValueError) as error:
        raise ProxyRefused(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
