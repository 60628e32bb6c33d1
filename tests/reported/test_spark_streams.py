"""Streams of Spark: what was reported of checkpoints and of queries that are stopped elsewhere."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq.protocol.errors import OrbitError
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.stream.streaming import StreamReader
from orbitmq.testing.local_broker import LocalBroker
from tests.spark.conftest import Outgoing, create_topic, publish

STOPS = 50


def reader(broker: LocalBroker, topic: str, starts: str) -> StreamReader:
    told = {"namesrv": broker.namesrv, "subscribe": topic, "startingOffsets": starts}
    return StreamReader(ReadOptions.parse(told, streaming=True), ("body",))


@pytest.mark.parametrize("starts", ["earliest", "latest"])
def test_a_checkpoint_counts_whatever_the_options_say_of_the_start(
    rocketmq: LocalBroker, starts: str
) -> None:
    """apache/seatunnel#9940, #10752"""
    topic = f"restored-{starts}"
    create_topic(rocketmq, topic, queues=1)
    publish(rocketmq, topic, [Outgoing(b"%d" % number) for number in range(10)])
    first = reader(rocketmq, topic, "latest")
    [queue] = first.initialOffset()[topic]
    first.stop()
    checkpoint = {topic: {queue: 4}}
    restored = reader(rocketmq, topic, starts)
    end = restored.latestOffset(checkpoint, ReadAllAvailable())
    assert end == {topic: {queue: 10}}
    rows = [
        body.as_py()
        for part in restored.partitions(checkpoint, end)
        for batch in restored.read(part)
        for body in batch.column("body")
    ]
    assert rows == [b"%d" % number for number in range(4, 10)]
    restored.stop()


def test_a_stop_in_the_middle_of_a_question_is_quiet_and_leaves_no_thread(rocketmq: LocalBroker) -> None:
    """apache/seatunnel#12099"""
    create_topic(rocketmq, "stopped", queues=1)
    before, odd = threading.active_count(), list[BaseException]()

    def ask(asked: StreamReader, began: threading.Event, over: threading.Event) -> None:
        while not over.is_set():
            try:
                asked.reportLatestOffset()
            except OrbitError:
                pass
            except BaseException as error:
                odd.append(error)
                return
            finally:
                began.set()

    for _ in range(STOPS):
        asked, began, over = reader(rocketmq, "stopped", "earliest"), threading.Event(), threading.Event()
        thread = threading.Thread(target=ask, args=(asked, began, over))
        thread.start()
        assert began.wait(60)
        asked.stop()
        over.set()
        thread.join(60)
        assert not thread.is_alive()
        asked.stop()
    assert not odd
    assert threading.active_count() < before + STOPS, "the broker in this process has threads that begin, too"
