import asyncio

from orbitmq import Message, Producer


async def main() -> None:
    async with Producer("shop") as producer:
        for number in range(10):
            order = Message("orders", f"order {number}", tags="new", keys=f"order-{number}")
            result = await producer.send(order, sharding_key=f"customer-{number % 3}")
            print(f"order {number} is message {result.queue_offset} of queue {result.queue.queue_id}")


asyncio.run(main())
