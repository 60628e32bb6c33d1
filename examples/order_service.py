"""An order service: the events of an order are handled in order, and one that fails holds up its order alone.

`python order_service.py publish` sends events of three orders; `python order_service.py` handles them.
"""

import json
import os
import sys

import orbitmq
from orbitmq import FIRST_OFFSET, DeadLetterPolicy, Message, PermanentFailure, PushConsumer, ReceivedMessage
from orbitmq.sync import Producer

EVENTS = ["created", "paid", "shipped"]

consumer = PushConsumer(
    "shipping",
    consume_from_where=FIRST_OFFSET,
    ordered_by_key=True,
    # Three attempts, 1 s apart; then the event becomes a dead letter, and the order goes on.
    dead_letter_policy=DeadLetterPolicy(max_attempts=3, delay_levels=(1,)),
)


@consumer.on("order-events")
async def handle(message: ReceivedMessage) -> None:
    """Handles one event of an order. An exception has it repeated, before later events of the same order."""
    event = json.loads(message.body)
    if "order" not in event:
        raise PermanentFailure("an event without an order")  # a dead letter at once
    if event["order"] == "B" and event["is"] == "paid" and message.reconsume_times < 2:
        raise ConnectionError("the bank does not answer")
    print(f"order {event['order']} is {event['is']}", flush=True)


def publish() -> None:
    """Sends the events; those of one order have one sharding key, and so one queue."""
    with Producer("shop") as producer:
        for event in EVENTS:
            for order in "ABC":
                body = json.dumps({"order": order, "is": event})
                producer.send(Message("order-events", body, keys=order), sharding_key=order)


if __name__ == "__main__":
    if sys.argv[1:] == ["publish"]:
        publish()
    else:
        sys.exit(orbitmq.run(consumer, health=os.environ.get("HEALTH")))
