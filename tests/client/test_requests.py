"""Request and reply, from Python to Python and between Python and Java, over either broker."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq import (
    FIRST_OFFSET,
    BodyTooLarge,
    IllegalMessage,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Reply,
    RequestTimeout,
    sync,
)
from tests.client.conftest import Cluster
from tests.client.java import Java
from tests.client.naming import fresh, until


async def answer(message: ReceivedMessage) -> Reply:
    return Reply(b"re: " + message.body, {"to": message.message_id})


async def test_a_request_gets_the_reply_of_its_handler(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("ask")
    await producer.send(Message(topic, b"makes the topic"))
    async with PushConsumer(fresh("g"), cluster.namesrv) as consumer:
        consumer.subscribe(topic, "question", answer)
        await until(lambda: len(consumer.queues) == 4)
        bodies = [b"one", b"two", b"x" * 10_000]
        replies = await asyncio.gather(
            *(producer.request(Message(topic, body, tags="question"), timeout_ms=30_000) for body in bodies)
        )
        assert [reply.body for reply in replies] == [b"re: " + body for body in bodies]
        assert replies[0].properties["to"]
        assert replies[0].topic.endswith("_REPLY_TOPIC")


async def test_a_reply_that_is_too_large_is_an_error_for_whoever_asked(cluster: Cluster) -> None:
    topic = fresh("ask")

    async def answer_much(message: ReceivedMessage) -> Reply:
        return Reply(bytes(100_000))

    async with Producer("p", cluster.namesrv, max_inflated_body_bytes=99_999) as producer:
        await producer.send(Message(topic, b"makes the topic"))
        async with PushConsumer(fresh("g"), cluster.namesrv) as consumer:
            consumer.subscribe(topic, "question", answer_much)
            await until(lambda: len(consumer.queues) == 4)
            with pytest.raises(BodyTooLarge, match="raise max_inflated_body_bytes"):
                await producer.request(Message(topic, b"?", tags="question"), timeout_ms=30_000)


async def test_nobody_replies(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("silent")
    await producer.send(Message(topic, b"makes the topic"))
    with pytest.raises(RequestTimeout, match=topic):
        await producer.request(Message(topic, b"anybody there?"), timeout_ms=500)


async def test_a_reply_to_what_is_no_request(cluster: Cluster, producer: Producer) -> None:
    topic, troubles = fresh("told"), list[Exception]()
    await producer.send(Message(topic, b"not a request"))
    options = {"consume_from_where": FIRST_OFFSET, "on_error": troubles.append}
    async with PushConsumer(fresh("g"), cluster.namesrv, **options) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(topic, "*", answer)
        await until(lambda: troubles)
    (trouble,) = troubles
    assert isinstance(trouble, IllegalMessage)
    assert "CORRELATION_ID" in str(trouble)


async def test_messages_without_a_handler_are_answered_by_hand(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("by-hand")
    await producer.send(Message(topic, b"makes the topic"))
    async with PushConsumer(fresh("g"), cluster.namesrv) as consumer:
        consumer.subscribe(topic, "question")
        await until(lambda: len(consumer.queues) == 4)
        asking = asyncio.create_task(
            producer.request(Message(topic, b"1", tags="question"), timeout_ms=30_000)
        )
        async for message in consumer:
            await consumer.reply(message, Reply(b"2"))
            await consumer.ack(message)
            break
        assert (await asking).body == b"2"


@pytest.mark.needs("java", "mvn")
async def test_java_answers_python_and_python_java(cluster: Cluster, producer: Producer) -> None:
    theirs, mine = fresh("java-answers"), fresh("python-answers")
    for topic in (theirs, mine):
        await producer.send(Message(topic, b"makes the topic"))
    async with Java(cluster.namesrv) as java, PushConsumer(fresh("g"), cluster.namesrv) as consumer:
        consumer.subscribe(mine, "question", answer)
        await until(lambda: len(consumer.queues) == 4)
        await java.done(f"@reply {fresh('g')} {theirs} question")
        reply = await producer.request(Message(theirs, b"one", tags="question"), timeout_ms=60_000)
        assert reply.body == b"re: one"
        assert await java.done(f"@request {fresh('p')} {mine} question two") == "re: two\n"


def test_the_blocking_face_asks_and_answers(cluster: Cluster) -> None:
    topic = fresh("blocking")
    with (
        sync.Producer(fresh("p"), cluster.namesrv) as producer,
        sync.PushConsumer(fresh("g"), cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer,
    ):
        producer.send(Message(topic, b"makes the topic", tags="other"))
        consumer.subscribe(topic, "question", lambda message: Reply(message.body.upper()))
        reply = producer.request(Message(topic, b"quiet", tags="question"), timeout_ms=60_000)
        assert reply.body == b"QUIET"
