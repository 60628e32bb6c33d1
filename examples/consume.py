import asyncio

from orbitmq import FIRST_OFFSET, PushConsumer, ReceivedMessage


async def handle(message: ReceivedMessage) -> None:
    print(*message.keys, message.body.decode())  # an exception here: the message comes again later


async def main() -> None:
    async with PushConsumer("billing", consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("orders", "new || changed", handle)
        await consumer.wait_closed()


asyncio.run(main())
