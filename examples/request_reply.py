import asyncio

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage, Reply


async def quote(message: ReceivedMessage) -> Reply:
    return Reply(f"{message.body.decode()} costs 12.50")


async def main() -> None:
    consumer = PushConsumer("prices", namespace="shop", trace=True, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("quotes", "*", quote)
    async with consumer, Producer("counter", namespace="shop", trace=True) as producer:
        answer = await producer.request(Message("quotes", "a teapot"), timeout_ms=60_000)
        print(answer.body.decode())


asyncio.run(main())
