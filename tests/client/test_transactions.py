"""Transactions, against OrbitMQ and Apache."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from orbitmq import (
    IllegalMessage,
    Message,
    PullConsumer,
    ReceivedMessage,
    SendResult,
    TopicNotFound,
    TransactionProducer,
    TransactionState,
    sync,
)
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.kit.brokers import BOTH_BROKERS

COMMIT, ROLLBACK, UNKNOWN = TransactionState


async def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(f"asked about {message}")


async def bodies(cluster: Cluster, topic: str) -> list[bytes]:
    """Everything of a topic that consumers see now; nothing where there is no such topic yet."""
    found: list[bytes] = []
    async with PullConsumer(fresh("reader"), cluster.namesrv) as reader:
        try:
            queues = await reader.queues(topic)
        except TopicNotFound:
            return []
        for queue in queues:
            offset = 0
            while messages := await reader.pull(queue, offset):
                found += [message.body for message in messages]
                offset = messages.next_offset
    return sorted(found)


async def until_there(cluster: Cluster, topic: str, expected: list[bytes]) -> None:
    """Returns once the topic holds what is expected: each once, though Apache's may publish one twice when it
    asked about a message while its decision came.
    """
    async with asyncio.timeout(120):
        while True:
            found = await bodies(cluster, topic)
            if found == expected or (cluster.name == "apache" and sorted(set(found)) == expected):
                return
            await asyncio.sleep(0.1)


@BOTH_BROKERS
async def test_commits_are_published_and_rollbacks_are_not(cluster: Cluster) -> None:
    topic = fresh("tx")
    seen_while_running: list[list[bytes]] = []

    async def commit(sent: SendResult) -> TransactionState:
        assert sent.transaction_id == sent.message_id
        seen_while_running.append(await bodies(cluster, topic))
        return COMMIT

    async with TransactionProducer(fresh("group"), cluster.namesrv, check=never) as producer:
        message = Message(topic, b"yes", tags="T", keys="k", properties={"user": "value"})
        done = await producer.send_in_transaction(message, commit)
        assert (done.state, done.is_confirmed, done.error) == (COMMIT, True, None)
        dropped = await producer.send_in_transaction(Message(topic, b"no"), lambda sent: ROLLBACK)
        assert (dropped.state, dropped.is_confirmed) == (ROLLBACK, True)
        await until_there(cluster, topic, [b"yes"])
    assert seen_while_running == [[]]
    async with PullConsumer(fresh("reader"), cluster.namesrv) as reader:
        found = [m for queue in await reader.queues(topic) for m in await reader.pull(queue, 0)]
    (received,) = found
    assert (received.tags, received.keys, received.properties["user"]) == ("T", ["k"], "value")
    assert received.message_id == done.sent.message_id
    assert received.queue.queue_id == done.sent.queue.queue_id


async def test_who_does_not_know_is_asked(cluster: Cluster) -> None:
    topic = fresh("tx")
    answers: dict[bytes, list[TransactionState]] = {b"a": [UNKNOWN, COMMIT], b"b": [ROLLBACK], b"c": [COMMIT]}
    asked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        left = answers[message.body]
        return left.pop(0) if len(left) > 1 else left[0]

    async with TransactionProducer(fresh("group"), cluster.namesrv, check=check) as producer:
        ids = {}
        for body in answers:
            result = await producer.send_in_transaction(
                Message(topic, body, properties={"user": "value"}), lambda sent: UNKNOWN
            )
            assert not result.is_confirmed
            assert result.error is None
            ids[body] = result.sent.transaction_id
        await until_there(cluster, topic, [b"a", b"c"])
        await until(lambda: {message.body for message in asked} == set(answers))
    for message in asked:
        assert message.topic == topic
        assert message.properties["user"] == "value"
        assert message.message_id == ids[message.body]


async def test_another_producer_of_the_group_answers_for_one_that_is_gone(cluster: Cluster) -> None:
    topic, group = fresh("tx"), fresh("group")
    async with TransactionProducer(group, cluster.namesrv, check=never) as first:
        await first.send_half(Message(topic, b"orphan"))
    asked = asyncio.Event()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.set()
        return COMMIT

    async with TransactionProducer(group, cluster.namesrv, check=check) as second:
        await second.send_in_transaction(Message(topic, b"hello"), lambda sent: COMMIT)
        async with asyncio.timeout(120):
            await asked.wait()
        await until_there(cluster, topic, [b"hello", b"orphan"])


@pytest.mark.parametrize("fails", ["execute", "check"])
async def test_an_exception_leaves_it_undecided(cluster: Cluster, fails: str) -> None:
    topic = fresh("tx")
    errors: list[Exception] = []
    answers: list[Callable[[], TransactionState]] = [lambda: COMMIT]
    if fails == "check":
        answers.insert(0, lambda: TransactionState(17))

    async def check(message: ReceivedMessage) -> TransactionState:
        return (answers.pop(0) if len(answers) > 1 else answers[0])()

    async def execute(sent: SendResult) -> TransactionState:
        raise ConnectionResetError("what became of it?")

    async with TransactionProducer(
        fresh("group"), cluster.namesrv, check=check, on_error=errors.append
    ) as producer:
        with pytest.raises(ConnectionResetError):
            await producer.send_in_transaction(Message(topic, b"x"), execute)
        await until_there(cluster, topic, [b"x"])
    assert [type(error) for error in errors] == ([ValueError] if fails == "check" else [])


async def test_what_cannot_be_sent_is_not_executed(cluster: Cluster) -> None:
    async def execute(sent: SendResult) -> TransactionState:
        raise AssertionError("executed")

    async with TransactionProducer(fresh("group"), cluster.namesrv, check=never) as producer:
        with pytest.raises(IllegalMessage):
            await producer.send_in_transaction(Message(fresh("tx"), b"x", delay_level=3), execute)
        with pytest.raises(IllegalMessage):
            await producer.send_in_transaction(Message(fresh("tx"), b""), execute)


async def test_an_end_that_the_broker_refuses_is_in_the_result_and_not_raised(cluster: Cluster) -> None:
    errors: list[Exception] = []
    async with TransactionProducer(
        fresh("group"), cluster.namesrv, check=never, on_error=errors.append
    ) as producer:
        sent = await producer.send_half(Message(fresh("tx"), b"x"))
        sent.queue_offset += 1
        result = await producer.end_transaction(sent, COMMIT)
        assert not result.is_confirmed
        assert result.error in errors
        sent.queue_offset -= 1
        assert (await producer.end_transaction(sent, ROLLBACK)).is_confirmed


async def test_plain_sends_are_as_ever(cluster: Cluster) -> None:
    topic = fresh("plain")
    async with TransactionProducer(fresh("group"), cluster.namesrv, check=never) as producer:
        await producer.send(Message(topic, b"one"))
        await producer.send_batch([Message(topic, b"two")])
        await until_there(cluster, topic, [b"one", b"two"])


def test_the_synchronous_face_runs_transactions_in_the_callers_thread(cluster: Cluster) -> None:
    topic = fresh("tx")
    threads: list[str] = []

    def execute(sent: SendResult) -> TransactionState:
        threads.append(threading.current_thread().name)
        return COMMIT if sent.queue_offset >= 0 else ROLLBACK

    asked = threading.Event()

    def check(message: ReceivedMessage) -> TransactionState:
        threads.append(threading.current_thread().name)
        asked.set()
        return COMMIT

    with sync.TransactionProducer(fresh("group"), cluster.namesrv, check=check) as producer:
        assert producer.send_in_transaction(sync.Message(topic, b"now"), execute).is_confirmed
        assert threads == [threading.current_thread().name]
        producer.send_in_transaction(sync.Message(topic, b"later"), lambda sent: UNKNOWN)
        assert asked.wait(60)
        asyncio.run(until_there(cluster, topic, [b"later", b"now"]))
    assert threads[1] not in (threads[0], "orbitmq event loop")


def test_options_are_checked() -> None:
    with pytest.raises(TypeError):
        TransactionProducer("g", check=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="check_concurrency"):
        TransactionProducer("g", check=never, check_concurrency=0)
