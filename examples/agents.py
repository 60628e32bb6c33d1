"""Agents that answer users: each session is a lite topic, and has its messages in order, whoever serves it.

Start a broker with lite topics first:

    orbitmq standalone --set enableLmq=true --set enableMultiDispatch=true
"""

import asyncio
import os

from orbitmq import Admin, LiteConsumer, Message, Producer, ReceivedMessage

SESSIONS = {"session-anna": ["hello", "a table for two", "at eight"], "session-bert": ["hi", "the bill"]}


async def prepare(name_server: str) -> None:
    """Makes the topic, whose lite topics come and go by themselves, and the group that is bound to it."""
    async with Admin(name_server) as admin:
        attributes = {"message.type": "LITE", "lite.topic.expiration": "60"}
        await admin.create_topic("sessions", attributes=attributes)
        await admin.create_group("agents", attributes={"lite.bind.topic": "sessions"})


async def main() -> None:
    """Serves two sessions until all of both is handled."""
    await prepare(os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    waiting = sum(map(len, SESSIONS.values()))
    all_handled = asyncio.Event()

    async def think(message: ReceivedMessage) -> None:
        nonlocal waiting
        print(f"{message.lite_topic}: {message.body.decode()}")
        waiting -= 1
        if not waiting:
            all_handled.set()

    agent = LiteConsumer("agents", topic="sessions", handler=think)
    async with Producer("front-end") as producer, agent:
        for session, lines in SESSIONS.items():
            await agent.subscribe(session)  # the session begins, and this agent serves it
            for line in lines:
                await producer.send(Message("sessions", line), lite_topic=session)
        await all_handled.wait()
        await agent.unsubscribe(*SESSIONS)


asyncio.run(main())
