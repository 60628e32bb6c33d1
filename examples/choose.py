"""Sends parcels and receives the heavy and the red ones: the broker looks at their properties.

The broker has to be started with `--set enablePropertyFilter=true`.
"""

import asyncio

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, Sql

HEAVY_OR_RED = Sql("weight > 10 OR color IN ('red', 'crimson')")


async def main() -> None:
    """Sends three parcels, and ends when both that are wanted have come."""
    async with Producer("shop") as producer:
        for name, weight, color in (("piano", "400", "black"), ("rose", "1", "red"), ("pen", "1", "blue")):
            properties = {"weight": weight, "color": color}
            await producer.send(Message("parcels", name, properties=properties))

    consumer = PushConsumer("carriers", consume_from_where=FIRST_OFFSET)
    consumer.subscribe("parcels", HEAVY_OR_RED)
    async with consumer:
        found = set()
        async for message in consumer:
            found.add(message.body.decode())
            if found == {"piano", "rose"}:
                break
    print(*sorted(found))


asyncio.run(main())
