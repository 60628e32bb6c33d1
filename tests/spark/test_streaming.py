"""Structured Streaming over topics with a real Spark: limits, restarts, and what changes under a query."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.admin.progress import group_progress
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.route import DeleteTopicInNamesrv
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.testing import LocalBroker
from tests.kit.brokers import BOTH_SERVERS
from tests.spark.busy import planned
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 300
only_orbitmq = pytest.mark.parametrize("server", ["orbitmq"], indirect=True)


def numbered(first: int, last: int, queues: int = 4) -> list[Outgoing]:
    return [
        Outgoing(str(n).encode(), queue_id=n % queues, properties={"n": str(n)}) for n in range(first, last)
    ]


class Pipeline:
    """A topic into Parquet files, as a query that can be run again and again."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {key: str(value) for key, value in options.items()}

    def start(self, **trigger: Any) -> StreamingQuery:
        return planned(lambda: self._start(**trigger))

    def _start(self, **trigger: Any) -> StreamingQuery:
        frame = self.spark.readStream.format("orbitmq").options(**self.options).load()
        return (
            frame.selectExpr("topic", "queueId", "queueOffset", "cast(body as string) as body")
            .writeStream.format("parquet")
            .option("path", str(self.folder / "lake"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def run(self) -> StreamingQuery:
        """All that is there now."""
        query = self.start(availableNow=True)
        query.awaitTermination()
        return query

    def lake(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / "lake"))

    def bodies(self) -> list[str]:
        return sorted((row.body for row in self.lake().collect()), key=int)

    def error(self) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- Spark's own, several classes
            self.run()
        return str(caught.value)


@pytest.fixture
def pipeline(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Callable[..., Pipeline]:
    def pipeline(**options: Any) -> Pipeline:
        given = {"namesrv": server.namesrv, "subscribe": topic, "startingOffsets": "earliest"} | options
        given = {key: value for key, value in given.items() if value is not None}
        return Pipeline(spark, tmp_path, **given)

    return pipeline


@pytest.fixture
def running() -> Iterator[list[StreamingQuery]]:
    """Queries that are stopped at the end."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def eventually(query: StreamingQuery, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        failure = query.exception()
        assert failure is None, failure
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.1)


def rows_seen(query: StreamingQuery) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


@BOTH_SERVERS
def test_available_now_within_limits_and_on_from_the_checkpoint(
    server: Server, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    from orbitmq.spark import commit_progress, queue_progress

    group = f"{topic}-archive"
    archive = pipeline(maxOffsetsPerTrigger=40, minPartitions=6, groupId=group)
    publish(server, topic, [*numbered(0, 90, 3), *numbered(90, 100, 4)])
    query = archive.run()
    assert archive.bodies() == [str(n) for n in range(100)]
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert len(sizes) >= 3
    assert max(sizes) <= 43  # a queue with little to read gets at least one
    last = queue_progress(query.lastProgress)
    assert [one.queue for one in last] == [f"broker-a|{n}" for n in range(4)]
    assert sum(one.end for one in last) == 100
    assert sum(one.lag for one in last) == 0
    first, second, *_ = (queue_progress(progress) for progress in query.recentProgress)
    assert any(one.lag for one in first)
    assert {one.offsets_per_second for one in first} == {None}  # Spark does not tell where it began
    assert any(one.offsets_per_second for one in second)

    async def backlog() -> int:
        async with Admin(server.namesrv) as admin:
            progress = await group_progress(admin, group)
            assert {queue.topic for queue in progress.queues} == {topic}
            return progress.lag

    publish(server, topic, numbered(100, 110))
    assert asyncio.run(backlog()) > 10  # Spark has said nothing of the last micro-batch
    assert commit_progress(query.lastProgress, archive.options)
    assert asyncio.run(backlog()) == 10
    archive.run()
    assert archive.bodies() == [str(n) for n in range(110)]
    counts = Counter(row.topic for row in archive.lake().collect())
    assert counts == {topic: 110}


@only_orbitmq
def test_new_queues_and_new_topics_are_found_while_it_runs(
    server: Server, topic: str, pipeline: Callable[..., Pipeline], running: list[StreamingQuery]
) -> None:
    follow = pipeline(subscribe=None, subscribePattern=f"{topic}.*")
    publish(server, topic, numbered(0, 4))
    running.append(query := follow.start(processingTime="0 seconds"))
    eventually(query, lambda: rows_seen(query) >= 4)
    create_topic(server, topic, queues=6)
    publish(server, topic, [Outgoing(b"4", queue_id=4), Outgoing(b"5", queue_id=5)])
    eventually(query, lambda: rows_seen(query) >= 6)
    create_topic(server, f"{topic}_more")
    publish(server, f"{topic}_more", [Outgoing(b"6")])
    eventually(query, lambda: rows_seen(query) >= 7)
    query.stop()
    assert follow.bodies() == [str(n) for n in range(7)]


@only_orbitmq
def test_progress_reaches_the_broker_after_every_batch_with_a_listener(
    spark: SparkSession, server: Server, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    from orbitmq.spark import ProgressListener

    archive = pipeline(groupId=f"{topic}-listened")
    publish(server, topic, numbered(0, 20))
    listener = ProgressListener(archive.options)
    spark.streams.addListener(listener)
    try:
        query = archive.run()

        async def backlog() -> int | None:
            async with Admin(server.namesrv) as admin:
                progress = await group_progress(admin, f"{topic}-listened")
                return progress.lag if progress.queues else None

        eventually(query, lambda: asyncio.run(backlog()) == 0)
    finally:
        spark.streams.removeListener(listener)


@only_orbitmq
def test_waits_for_enough_or_long_enough(
    server: Server, topic: str, pipeline: Callable[..., Pipeline], running: list[StreamingQuery]
) -> None:
    patient = pipeline(minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    publish(server, topic, numbered(0, 3))
    running.append(query := patient.start(processingTime="0 seconds"))
    eventually(query, lambda: rows_seen(query) >= 3)  # the first one never waits
    publish(server, topic, numbered(3, 8))
    publish(server, topic, numbered(8, 13))
    eventually(query, lambda: rows_seen(query) >= 13)
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sizes == [3, 10]


def delete_topic(server: Server, topic: str) -> None:
    with BlockingConnection(server.broker) as broker, BlockingConnection(server.namesrv) as namesrv:
        broker.call(DeleteTopicInBroker(topic))
        namesrv.call(DeleteTopicInNamesrv(topic))


@only_orbitmq
def test_a_topic_that_was_made_anew_and_a_checkpoint_of_another(
    server: Server, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    publish(server, topic, numbered(0, 20))
    archive = pipeline()
    archive.run()
    other = f"{topic}_other"
    create_topic(server, other)
    stranger = pipeline(subscribe=other)
    assert f"the checkpoint is of another query: it holds offsets of {topic}" in stranger.error()
    delete_topic(server, topic)
    create_topic(server, topic)
    publish(server, topic, numbered(20, 24))
    said = archive.error()
    assert "ends at offset 1, but the stream has read up to 5" in said
    assert "failOnDataLoss=false" in said
    lenient = pipeline(failOnDataLoss="false")
    lenient.run()
    publish(server, topic, numbered(24, 28))
    lenient.run()
    assert lenient.bodies() == [str(n) for n in range(28)]


def test_a_broker_that_goes_away_and_comes_back(
    spark: SparkSession, tmp_path: Path, running: list[StreamingQuery]
) -> None:
    with LocalBroker(tmp_path / "broker", own_process=True, timeout_seconds=120) as broker:
        create_topic(broker, "orders")
        publish(broker, "orders", numbered(0, 40))
        archive = Pipeline(
            spark, tmp_path, namesrv=broker.namesrv, subscribe="orders", startingOffsets="earliest"
        )
        running.append(query := archive.start(processingTime="0 seconds"))
        eventually(query, lambda: rows_seen(query) >= 40)
        broker.kill()
        time.sleep(1)  # the query asks in vain
        broker.start()
        publish(broker, "orders", numbered(40, 60))
        eventually(query, lambda: rows_seen(query) >= 60)
        query.stop()
        assert archive.bodies() == [str(n) for n in range(60)]


@only_orbitmq
def test_what_is_wrong_of_a_stream_is_said(
    server: Server, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    publish(server, topic, numbered(0, 4))
    assert "topic nothing_here does not exist" in pipeline(subscribe="nothing_here").error()
    beyond = json.dumps({topic: {str(n): 9 for n in range(4)}})
    assert "startingOffsets begin at 9" in pipeline(startingOffsets=beyond).error()
    assert "endingOffsets means nothing to a stream" in pipeline(endingOffsets="latest").error()
    assert "cannot read 'a >' as SQL92" in pipeline(sql="a >").error()
