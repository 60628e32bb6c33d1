"""A worker: bills orders until it is stopped. The application guide shows how to deploy it."""

import os
import sys

import orbitmq
from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage

producer = Producer("billing")
consumer = PushConsumer("billing", consume_from_where=FIRST_OFFSET, close_timeout_ms=20_000)


@consumer.on("orders", tags="new")
async def bill(message: ReceivedMessage) -> None:
    """Sends a bill for every new order."""
    await producer.send(Message("bills", b"bill for " + message.body, keys=message.keys))
    print(f"billed {message.body.decode()}", flush=True)


if __name__ == "__main__":
    sys.exit(orbitmq.run(consumer, producer, health=os.environ.get("HEALTH")))
