"""The synchronous API, against OrbitMQ and Apache."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbitmq.sync import (
    FIRST_OFFSET,
    Message,
    NotRunning,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TopicNotFound,
)
from tests.client.conftest import Cluster
from tests.client.naming import fresh
from tests.kit.interrupting import interrupted_after


def wait(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_sending_and_pulling(cluster: Cluster) -> None:
    topic = fresh("sync")
    with Producer("sync-tests", cluster.namesrv) as producer:
        result = producer.send(Message(topic, b"one"))
        batch = producer.send_batch([Message(topic, b"two"), Message(topic, b"three")], queue=result.queue)
        producer.send_oneway(Message(topic, b"four"), queue=result.queue)
        assert producer.send_all(Message(topic, str(n)) for n in range(100)) == 100
    assert [r.queue_offset for r in (result, *batch)] == [0, 1, 2]
    with PullConsumer("sync-tests", cluster.namesrv) as consumer:
        # Apache's broker acknowledges messages before they are in their queues.
        wait(lambda: sum(map(consumer.max_offset, consumer.queues(topic))) == 104)
        bodies = [message.body for message in consumer.pull(result.queue, 0, 4)]
        assert bodies[:3] == [b"one", b"two", b"three"]
        end = consumer.max_offset(result.queue)
        assert consumer.pull(result.queue, end) == []
        assert consumer.committed(result.queue) in (None, 0)
        consumer.commit(result.queue, 2)
        assert consumer.committed(result.queue) == 2
        assert consumer.offset_at(result.queue, 0) == 0
        with pytest.raises(TopicNotFound):
            consumer.queues(fresh("nowhere"))


def test_threads_may_share_a_producer(cluster: Cluster) -> None:
    topic = fresh("shared")
    with Producer("sync-tests", cluster.namesrv) as producer, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: producer.send(Message(topic, str(n))), range(100)))
    assert len({(result.queue, result.queue_offset) for result in results}) == 100


def test_handlers_and_iteration(cluster: Cluster) -> None:
    topic, other = fresh("handled"), fresh("iterated")
    seen: list[ReceivedMessage] = []
    with Producer("sync-tests", cluster.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic, str(number)))
            producer.send(Message(other, str(number)))
    with PushConsumer(fresh("g"), cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, "*", seen.append)
        consumer.subscribe(other)
        bodies = []
        for message in consumer:
            bodies.append(int(message.body))
            if len(bodies) == 5:
                consumer.ack(message)
                break
        wait(lambda: len(seen) == 5)
        assert consumer.healthy
        assert consumer.errors == {}
    assert sorted(bodies) == sorted(int(message.body) for message in seen) == [0, 1, 2, 3, 4]


def test_closing_from_another_thread_ends_the_iteration(cluster: Cluster) -> None:
    consumer = PushConsumer(fresh("g"), cluster.namesrv).start()
    consumer.subscribe(fresh("nothing"))
    threading.Timer(0.2, consumer.close).start()
    assert list(consumer) == []
    consumer.wait_closed()


def test_an_interrupt_ends_a_wait(cluster: Cluster) -> None:
    consumer = PushConsumer(fresh("g"), cluster.namesrv).start()
    consumer.subscribe(fresh("nothing"))
    begun = threading.Event()

    def messages() -> Iterator[ReceivedMessage]:
        begun.set()
        yield from consumer

    with interrupted_after(iter([begun.is_set])), pytest.raises(KeyboardInterrupt):
        list(messages())
    consumer.close()


def _in_child(namesrv: str, topic: str, parents: Producer, told: multiprocessing.Queue) -> None:
    try:
        parents.send(Message(topic, b"from the parent's producer"))
    except NotRunning as error:
        told.put(str(error))
    with Producer("sync-tests", namesrv) as own:
        told.put(own.send(Message(topic, b"from the child's own")).queue_offset >= 0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.needs("fork")
def test_after_a_fork_old_ones_say_so_and_new_ones_work(cluster: Cluster) -> None:
    topic = fresh("forked")
    forking = multiprocessing.get_context("fork")
    told = forking.Queue()
    with Producer("sync-tests", cluster.namesrv) as producer:
        producer.send(Message(topic, b"from the parent"))
        child = forking.Process(target=_in_child, args=(cluster.namesrv, topic, producer, told))
        child.start()
        assert "forked" in told.get(timeout=60)
        assert told.get(timeout=60) is True
        child.join(60)
        assert child.exitcode == 0
        producer.send(Message(topic, b"from the parent again"))
