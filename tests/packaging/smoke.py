"""A first program on an install, which needs nothing but OrbitMQ: one message is sent and received."""

from __future__ import annotations

from orbitmq import FIRST_OFFSET, Message
from orbitmq.sync import Producer, PushConsumer
from orbitmq.testing import LocalBroker


def main() -> None:
    """Prints the body of the message that came."""
    with LocalBroker(own_process=True) as broker:
        with Producer("smoke", broker.namesrv) as producer:
            producer.send(Message("smoke", b"hello"))
        with PushConsumer("smoke", broker.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
            consumer.subscribe("smoke")
            print(next(iter(consumer)).body.decode())


if __name__ == "__main__":
    main()
