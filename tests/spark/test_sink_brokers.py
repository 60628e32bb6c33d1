"""A topic on two brokers of which one goes away while a task sends to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from orbitmq.client.core.routes import TopicRoute
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.spark.read.connecting import PLAIN
from orbitmq.spark.sink.counts import Counts
from orbitmq.spark.sink.encoding import Outgoing
from orbitmq.spark.sink.errors import WriteFailed
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.queue_senders import QueueSenders
from orbitmq.spark.sink.routes import Routes
from orbitmq.testing import LocalBroker
from tests.spark.conftest import create_topic
from tests.spark.test_sink_once import stored

TOPIC = "two_brokers"
ROWS = 400


@pytest.fixture
def pair() -> Iterator[tuple[LocalBroker, LocalBroker]]:
    with LocalBroker(own_process=True) as first, LocalBroker(own_process=True) as second:
        create_topic(first, TOPIC)
        create_topic(second, TOPIC)
        yield first, second


class RoutesOfBoth(Routes):
    """As the name server of a cluster of both would tell it."""

    def __init__(self, brokers: tuple[LocalBroker, ...]) -> None:
        super().__init__([], PLAIN)
        names = [f"broker-{number}" for number in range(len(brokers))]
        data = TopicRouteData(
            queue_datas=[QueueData(name, 4, 4, 6) for name in names],
            broker_datas=[
                BrokerData("cluster", name, {0: broker.broker})
                for name, broker in zip(names, brokers, strict=True)
            ],
        )
        self._known[TOPIC] = TopicRoute(TOPIC, data)

    def refresh(self, topic: str) -> TopicRoute:
        return self._known[topic]


def message(row: int, key: str | None = None) -> Outgoing:
    unique_id = f"{row:032X}"
    properties = f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01true\x02".encode()
    return Outgoing(TOPIC, key, 0, f"row {row}".encode(), properties, unique_id, row, b"", None)


def senders_of(brokers: tuple[LocalBroker, ...], counts: Counts, **given: str) -> QueueSenders:
    options = WriteOptions.parse({"namesrv": "127.0.0.1:1", "batchSize": "10"} | given)
    return QueueSenders(options, RoutesOfBoth(brokers), counts)


def test_what_one_broker_does_not_take_goes_to_the_other(pair: tuple[LocalBroker, LocalBroker]) -> None:
    counts = Counts()
    senders = senders_of(pair, counts)
    try:
        for row in range(ROWS):
            if row == ROWS // 2:
                senders.finish()
                pair[1].kill()
            senders.add(message(row))
        senders.finish()
    finally:
        senders.close()
    assert counts.messages == ROWS
    assert counts.retries > 0
    pair[1].start()
    here, there = stored(pair[0], TOPIC), stored(pair[1], TOPIC)
    assert there, "it took its share while it was there"
    assert here + there == Counter(f"row {row}" for row in range(ROWS))


def test_a_sharding_key_stays_with_its_queue_and_fails_with_it(
    pair: tuple[LocalBroker, LocalBroker],
) -> None:
    pair[1].kill()
    routes = RoutesOfBoth(pair)
    from orbitmq.client.sending.queue_choice import queue_of_key

    queues = routes.queues(TOPIC)
    lost = next(key for key in map(str, range(100)) if queue_of_key(queues, key).broker_name == "broker-1")
    senders = senders_of(pair, Counts(), timeoutMs="1000")
    try:
        senders.add(message(0, lost))
        with pytest.raises(WriteFailed, match=f"1 messages to {TOPIC} not sent after"):
            senders.finish()
    finally:
        senders.close()
    assert not stored(pair[0], TOPIC)
