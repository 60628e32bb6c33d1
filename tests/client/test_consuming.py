"""Consuming, against OrbitMQ and Apache."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from orbitmq import (
    FIRST_OFFSET,
    RETRY,
    DeadLetterPolicy,
    Message,
    NoNameServer,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Retry,
)
from orbitmq.client.core.errors import CannotIterate
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.kit.brokers import BOTH_BROKERS


class Seen:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]


def consumer(cluster: Cluster, group: str, **options: object) -> PushConsumer:
    return PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET, **options)  # type: ignore[arg-type]


async def send(producer: Producer, topic: str, count: int, **options: object) -> None:
    for number in range(count):
        await producer.send(Message(topic, str(number), **options))  # type: ignore[arg-type]


@BOTH_BROKERS
async def test_every_message_comes(cluster: Cluster, producer: Producer) -> None:
    topic, seen = fresh("all"), Seen()
    await send(producer, topic, 20)
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic, "*", seen)
        await until(lambda: len(seen.messages) >= 20)
        await send(producer, topic, 20)
        await until(lambda: len(seen.messages) >= 40)
        assert reader.healthy
        assert reader.errors == {}
    assert Counter(seen.bodies) == {str(number): 2 for number in range(20)}
    assert not reader.healthy


async def test_only_messages_with_the_tags_come(cluster: Cluster, producer: Producer) -> None:
    # "Aa" and "BB" have one hash code, by which brokers filter: only a second look tells them apart.
    topic, seen = fresh("tags"), Seen()
    for tag in ("Aa", "BB", "C", None) * 5:
        await producer.send(Message(topic, tag or "none", tags=tag))
    await producer.send(Message(topic, b"last", tags="C"))
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic, "Aa || C", seen)
        await until(lambda: len(seen.messages) >= 11)
    assert Counter(seen.bodies) == {"Aa": 5, "C": 5, "last": 1}


@BOTH_BROKERS
async def test_what_fails_comes_again_with_a_count(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("retry")
    seen: list[tuple[str, int, str]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.body.decode(), message.reconsume_times, message.topic))
        if message.reconsume_times == 0:
            if message.body == b"0":
                raise RuntimeError("handler says no")
            if message.body == b"1":
                return Retry(delay_level=1)
        return None

    errors: list[Exception] = []
    async with consumer(cluster, fresh("g"), on_error=errors.append) as reader:
        reader.subscribe(topic, "*", handle)
        await send(producer, topic, 3)
        await until(lambda: len(seen) >= 5)
        assert reader.healthy, reader.errors
    assert sorted(seen) == [
        ("0", 0, topic),
        ("0", 1, topic),
        ("1", 0, topic),
        ("1", 1, topic),
        ("2", 0, topic),
    ]
    assert [str(error) for error in errors if isinstance(error, RuntimeError)] == ["handler says no"]


async def test_a_message_that_always_fails_ends_as_a_dead_letter(
    cluster: Cluster, producer: Producer
) -> None:
    topic, group = fresh("dead"), fresh("g")
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> Retry:
        seen.append(message.reconsume_times)
        return Retry(delay_level=1)

    async with consumer(cluster, group, max_reconsume_times=1) as reader:
        reader.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"poison", keys="k"))
        await until(lambda: len(seen) >= 2)
        async with PullConsumer("dead-letters", cluster.namesrv) as dead:
            letters: list[ReceivedMessage] = []
            async with asyncio.timeout(120):
                while not letters:
                    try:
                        [queue] = await dead.queues(f"%DLQ%{group}")
                        letters = await dead.pull(queue, 0, wait_ms=1000)
                    except Exception:
                        await asyncio.sleep(0.2)
    assert seen == [0, 1]
    letter = letters[0]
    assert (letter.body, letter.keys, letter.reconsume_times) == (b"poison", ["k"], 2)
    assert (letter.properties["exception"], letter.properties["exceptionAttempt"]) == ("Retry", "2")
    assert letter.properties["RETRY_TOPIC"] == topic


async def test_a_message_can_be_given_up_at_once(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("giveup"), fresh("g")

    async def handle(message: ReceivedMessage) -> None:
        try:
            raise ValueError("not an order")
        except ValueError as error:
            raise Retry(delay_level=-1) from error

    async with consumer(cluster, group) as reader, PullConsumer("dead-letters", cluster.namesrv) as dead:
        reader.subscribe(topic, "*", handle)
        await producer.send(Message(topic, b"poison"))
        async with asyncio.timeout(120):
            while True:
                try:
                    [queue] = await dead.queues(f"%DLQ%{group}")
                    if letters := await dead.pull(queue, 0):
                        break
                except Exception:
                    await asyncio.sleep(0.2)
        properties = letters[0].properties
        assert (properties["exception"], properties["exceptionText"]) == ("ValueError", "not an order")
        assert (properties["exceptionConsumer"], properties["exceptionAttempt"]) == (reader.client_id, "1")


async def test_plain_functions_run_in_threads(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("threads")
    names: set[str] = set()
    together = threading.Barrier(2, timeout=100)

    def handle(message: ReceivedMessage) -> None:
        together.wait()
        names.add(threading.current_thread().name)

    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic, "*", handle)
        await send(producer, topic, 4)
        await until(lambda: len(names) >= 2)
    assert threading.main_thread().name not in names


async def test_no_more_than_concurrency_at_a_time(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("limit")
    running, most, done = 0, 0, 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        done += 1

    await producer.send_all(Message(topic, str(n)) for n in range(60))
    async with consumer(cluster, fresh("g"), concurrency=3) as reader:
        reader.subscribe(topic, "*", handle)
        await until(lambda: done == 60)
    assert most == 3


@BOTH_BROKERS
async def test_members_share_the_queues_and_take_over(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("share"), fresh("g")
    await producer.send(Message(topic, b"first"))
    seen = [Seen(), Seen()]
    # The regular pass never comes: the broker tells that somebody came, or left.
    one, two = (consumer(cluster, group, rebalance_interval_ms=3_600_000) for _ in range(2))
    one.subscribe(topic, "*", seen[0])
    two.subscribe(topic, "*", seen[1])
    async with one:
        await until(lambda: len(one.queues) == 4 and seen[0].messages)
        async with two:
            await until(lambda: len(one.queues) == len(two.queues) == 2)
            assert not set(one.queues) & set(two.queues)
            await send(producer, topic, 40)
            await until(lambda: len(seen[0].messages) + len(seen[1].messages) >= 41)
            assert seen[0].messages
            assert len(seen[1].messages) >= 20
        await until(lambda: len(one.queues) == 4)
        await send(producer, topic, 8)
        await until(lambda: len(seen[0].messages) >= 1 + 20 + 8)


async def test_offsets_are_kept(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("offsets"), fresh("g")
    await send(producer, topic, 12)
    first, second = Seen(), Seen()
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic, "*", first)
        await until(lambda: len(first.messages) == 12)
    await send(producer, topic, 4)
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic, "*", second)
        await until(lambda: len(second.messages) >= 4)
        await asyncio.sleep(0.5)
    assert Counter(second.bodies) == {str(number): 1 for number in range(4)}


async def test_messages_without_a_handler_come_by_iteration(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("iterate"), fresh("g")
    await send(producer, topic, 10)
    bodies = []
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic)
        async for message in reader:
            bodies.append(message.body.decode())
            if len(bodies) == 5:
                break  # the one in hand is not acknowledged
    rest = []
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic)
        async for message in reader:
            rest.append(message.body.decode())
            if len(rest) == 6:
                await reader.ack(message)
                break
    assert sorted(bodies[:4] + rest) == [str(n) for n in range(10)]
    async with PullConsumer(group, cluster.namesrv) as offsets:
        committed = [await offsets.committed(queue) for queue in await offsets.queues(topic)]
    assert sum(offset or 0 for offset in committed) == 10


async def test_an_iterating_consumer_may_send_back(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("iterback")
    await producer.send(Message(topic, b"x"))
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic)
        seen = []
        async for message in reader:
            seen.append(message.reconsume_times)
            if len(seen) == 2:
                break
            await reader.retry(message, 1)
    assert seen == [0, 1]


async def test_iteration_ends_when_the_consumer_is_closed(cluster: Cluster) -> None:
    reader = await consumer(cluster, fresh("g")).start()
    reader.subscribe(fresh("nothing"))
    task = asyncio.create_task(anext(aiter(reader), None))
    await asyncio.sleep(0.05)
    await reader.close()
    assert await task is None


@BOTH_BROKERS
async def test_ordered_messages_of_a_queue_come_one_by_one_and_wait_for_each_other(
    cluster: Cluster, producer: Producer
) -> None:
    topic = fresh("ordered")
    seen: list[tuple[str, int]] = []
    running: Counter[int] = Counter()
    overlaps = 0

    async def handle(message: ReceivedMessage) -> Retry | None:
        nonlocal overlaps
        queue = message.queue.queue_id
        overlaps += running[queue]
        running[queue] += 1
        await asyncio.sleep(0.001)
        running[queue] -= 1
        seen.append((message.body.decode(), message.reconsume_times))
        if message.body == b"k1-3" and message.reconsume_times < 2:
            return RETRY
        return None

    for number in range(10):
        for key in ("k0", "k1", "k2"):
            await producer.send(Message(topic, f"{key}-{number}"), sharding_key=key)
    async with consumer(cluster, fresh("g"), ordered=True, suspend_current_queue_time_ms=50) as reader:
        reader.subscribe(topic, "*", handle)
        await until(lambda: len(seen) == 32)
    assert overlaps == 0
    for key in ("k0", "k1", "k2"):
        mine = [body for body, times in seen if body.startswith(key) and times == 0]
        assert mine == [f"{key}-{number}" for number in range(10)]
    at = [index for index, (body, _) in enumerate(seen) if body == "k1-3"]
    assert [seen[index][1] for index in at] == [0, 1, 2]
    assert all(not body.startswith("k1") for body, _ in seen[at[0] + 1 : at[1]])


async def test_ordered_messages_are_given_up_after_too_many_times(
    cluster: Cluster, producer: Producer
) -> None:
    topic, group = fresh("ordereddead"), fresh("g")
    seen: list[tuple[str, int]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.body.decode(), message.reconsume_times))
        return RETRY if message.body == b"0" else None

    queue = (await producer.queues(topic))[0]
    for number in range(2):
        await producer.send(Message(topic, str(number)), queue=queue)
    options = {"ordered": True, "max_reconsume_times": 1, "suspend_current_queue_time_ms": 50}
    async with consumer(cluster, group, **options) as reader:
        reader.subscribe(topic, "*", handle)
        await until(lambda: ("1", 0) in seen)
        async with PullConsumer("dead-letters", cluster.namesrv) as dead, asyncio.timeout(120):
            while True:
                try:
                    [letters] = await dead.queues(f"%DLQ%{group}")
                    if await dead.pull(letters, 0):
                        break
                except Exception:
                    await asyncio.sleep(0.2)
    assert seen == [("0", 0), ("0", 1), ("1", 0)]


async def test_a_message_that_fails_blocks_its_key_and_no_other(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("keyorder"), fresh("g")
    queue = (await producer.queues(topic))[0]
    seen: list[tuple[str, int]] = []
    others = asyncio.Event()

    async def handle(message: ReceivedMessage) -> Retry | None:
        body = message.body.decode()
        seen.append((body, message.reconsume_times))
        if len([one for one, _ in seen if one.startswith("b")]) == 5:
            others.set()
        if body == "a0":
            if message.reconsume_times == 0:
                await others.wait()  # all of the other key are handled beside it
            return Retry(delay_level=1)
        return None

    for number in range(5):
        for key in "ab":
            await producer.send(Message(topic, f"{key}{number}", keys=key), queue=queue)
    policy = DeadLetterPolicy(max_attempts=2)
    async with (
        consumer(cluster, group, ordered_by_key=True, dead_letter_policy=policy) as reader,
        PullConsumer("dead-letters", cluster.namesrv) as dead,
    ):
        reader.subscribe(topic, "*", handle)
        await until(lambda: ("a4", 0) in seen)
        async with asyncio.timeout(120):
            while True:
                try:
                    [letters] = await dead.queues(f"%DLQ%{group}")
                    if found := await dead.pull(letters, 0):
                        break
                except Exception:
                    await asyncio.sleep(0.2)
    assert [one for one in seen if one[0].startswith("a")] == [
        ("a0", 0),
        ("a0", 1),
        *((f"a{number}", 0) for number in range(1, 5)),
    ]
    assert [body for body, _ in seen if body.startswith("b")] == [f"b{number}" for number in range(5)]
    assert found[0].body == b"a0"


async def test_an_ordered_member_takes_over_when_another_leaves(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("orderedshare"), fresh("g")
    await producer.send(Message(topic, b"first"))
    one, two = (consumer(cluster, group, ordered=True) for _ in range(2))
    seen = Seen()
    one.subscribe(topic, "*", seen)
    two.subscribe(topic, "*", seen)
    async with one:
        await until(lambda: len(one.queues) == 4)
        async with two:
            await until(lambda: len(one.queues) == len(two.queues) == 2)
        await until(lambda: len(one.queues) == 4)
        await send(producer, topic, 8)
        await until(lambda: {"first", *map(str, range(8))} <= set(seen.bodies))


async def test_an_ordered_consumer_needs_handlers(cluster: Cluster) -> None:
    with pytest.raises(CannotIterate):
        consumer(cluster, fresh("g"), ordered=True).subscribe("T")


async def test_subscriptions_may_change_on_the_way(cluster: Cluster, producer: Producer) -> None:
    one, two = fresh("one"), fresh("two")
    first, second = Seen(), Seen()
    await send(producer, one, 4)
    await send(producer, two, 4)
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(one, "*", first)
        await until(lambda: len(first.messages) == 4)
        reader.subscribe(two, "*", second)
        await until(lambda: len(second.messages) == 4)
        reader.unsubscribe(one)
        await until(lambda: {queue.topic for queue in reader.queues} == {two})
        await send(producer, one, 4)
        await send(producer, two, 4)
        await until(lambda: len(second.messages) == 8)
    assert len(first.messages) == 4


async def test_a_topic_may_come_into_being_after_its_consumer(cluster: Cluster, producer: Producer) -> None:
    topic, seen = fresh("future"), Seen()
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic, "*", seen)
        await until(lambda: any(topic in subject for subject in reader.errors))
        assert not reader.healthy
        await send(producer, topic, 4)
        await until(lambda: len(seen.messages) == 4)
        await until(lambda: reader.healthy)


async def test_close_waits_for_handlers_and_commits_what_they_did(
    cluster: Cluster, producer: Producer
) -> None:
    topic, group = fresh("slow"), fresh("g")
    started, ended = asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.sleep(0.3)
        ended.set()

    queue = (await producer.send(Message(topic, b"x"))).queue
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic, "*", handle)
        await started.wait()
    assert ended.is_set()
    async with PullConsumer(group, cluster.namesrv) as offsets:
        assert await offsets.committed(queue) == 1


async def test_close_obeys_its_deadline_and_the_message_comes_again(
    cluster: Cluster, producer: Producer
) -> None:
    topic, group = fresh("stuck"), fresh("g")
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def never(message: ReceivedMessage) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await producer.send(Message(topic, b"x"))
    reader = consumer(cluster, group, close_timeout_ms=3_600_000)
    reader.subscribe(topic, "*", never)
    await reader.start()
    await started.wait()
    async with asyncio.timeout(60):
        await reader.close(200)
    assert cancelled.is_set()
    await reader.close()
    seen = Seen()
    async with consumer(cluster, group) as reader:
        reader.subscribe(topic, "*", seen)
        await until(lambda: seen.messages)


async def test_a_handler_may_close_its_own_consumer(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("suicide")
    reader = consumer(cluster, fresh("g"))

    async def handle(message: ReceivedMessage) -> None:
        await reader.close()

    reader.subscribe(topic, "*", handle)
    await producer.send(Message(topic, b"x"))
    await reader.start()
    async with asyncio.timeout(60):
        await reader.wait_closed()


async def test_nothing_connects_after_close(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("after")
    await producer.send(Message(topic, b"x"))
    seen = Seen()
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(topic, "*", seen)
        await until(lambda: seen.messages)
    await asyncio.sleep(0)
    mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    names = [task.get_name() for task in mine if "g-" in task.get_name() or "pull" in task.get_name()]
    assert names == []
    assert reader._session is not None
    assert reader._session.instance._pool.addresses == []
    await send(producer, topic, 4)
    await asyncio.sleep(1.2)
    assert len(seen.messages) == 1


async def test_no_name_server_is_said_at_once() -> None:
    reader = PushConsumer("g", "127.0.0.1:9")
    reader.subscribe("T")
    with pytest.raises(NoNameServer):
        await reader.start()
