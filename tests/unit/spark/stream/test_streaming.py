"""The options of a stream, asked of the reader as Spark asks it: planning, reading and committing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.partition import QueuePartition
from orbitmq.spark.stream.streaming import StreamReader
from orbitmq.testing import LocalBroker
from tests.spark.conftest import Outgoing, create_topic, publish

QUEUES = 2
EARLY, LATE = 20, 10

Stream = Callable[..., StreamReader]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """With a topic of two queues: twenty messages, and later ten more in the first queue alone."""
    with LocalBroker(timeout_seconds=120, enablePropertyFilter="true") as server:
        create_topic(server, "orders", queues=QUEUES)
        publish(server, "orders", [numbered(n, n % QUEUES) for n in range(EARLY)])
        yield server


@pytest.fixture(scope="module")
def between_ms(broker: LocalBroker) -> int:
    """A time after the twenty and before the ten, which are there from then on."""
    between = int(time.time() * 1000) + 20
    while time.time() * 1000 < between + 20:
        time.sleep(0.01)
    publish(broker, "orders", [numbered(n, 0) for n in range(EARLY, EARLY + LATE)])
    return between


@pytest.fixture
def stream(broker: LocalBroker, between_ms: int) -> Iterator[Stream]:
    readers = []

    def stream(**given: Any) -> StreamReader:
        columns = tuple(given.pop("columns", "body").split(","))
        told = {"namesrv": broker.namesrv, "subscribe": "orders", "startingOffsets": "earliest"} | {
            name: str(value) for name, value in given.items()
        }
        readers.append(reader := StreamReader(ReadOptions.parse(told, streaming=True), columns))
        return reader

    yield stream
    for reader in readers:
        reader.stop()


def numbered(number: int, queue_id: int) -> Outgoing:
    # "Aa" and "BB" have the same hash, which is all that a broker's index knows of them.
    return Outgoing(str(number).encode(), queue_id, {"TAGS": "BB" if number % 2 else "Aa", "n": str(number)})


def planned(reader: StreamReader) -> list[QueuePartition]:
    """The tasks of the first micro-batch."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    return [part for part in reader.partitions(start, end) if isinstance(part, QueuePartition)]


def rows(reader: StreamReader) -> list[dict[str, Any]]:
    return [row for part in planned(reader) for batch in reader.read(part) for row in batch.to_pylist()]


def numbers(reader: StreamReader) -> list[int]:
    return sorted(int(row["body"]) for row in rows(reader))


def test_tags_and_sql_choose_the_rows_of_a_stream(stream: Stream) -> None:
    everything = range(EARLY + LATE)
    assert numbers(stream()) == list(everything)
    assert numbers(stream(tags="BB")) == [n for n in everything if n % 2]
    assert numbers(stream(sql="n >= 7 AND n < 10")) == [7, 8, 9]


def test_only_the_columns_that_are_asked_for_are_built(stream: Stream) -> None:
    found = rows(stream(columns="brokerName,queueOffset"))
    assert len(found) == EARLY + LATE
    assert found[0] == {"brokerName": "broker-a", "queueOffset": 0}


def test_times_begin_a_stream(stream: Stream, between_ms: int) -> None:
    late = list(range(EARLY, EARLY + LATE))
    strategy = "startingOffsetsByTimestampStrategy"
    assert numbers(stream(startingTimestamp=between_ms, **{strategy: "latest"})) == late
    with pytest.raises(BadOption, match=r"broker-a\|1 has no message stored at or after that time"):
        stream(startingTimestamp=between_ms).initialOffset()
    per_queue = json.dumps({"orders": {"0": between_ms, "1": 0}})
    odd = [n for n in range(EARLY) if n % QUEUES == 1]
    assert numbers(stream(startingOffsetsByTimestamp=per_queue)) == sorted([*odd, *late])


@pytest.mark.parametrize(
    ("option", "number", "tasks"), [("minPartitions", 6, 6), ("maxRecordsPerPartition", 5, 6)]
)
def test_micro_batches_are_cut_into_tasks(stream: Stream, option: str, number: int, tasks: int) -> None:
    assert len(planned(stream())) == QUEUES
    reader = stream(**{option: number})
    assert len(planned(reader)) >= tasks
    assert max(len(part.work) for part in planned(reader)) <= 5
    assert numbers(reader) == list(range(EARLY + LATE))


def test_rows_are_handed_over_before_a_task_is_done(stream: Stream) -> None:
    reader = stream(maxBatchBytes=1)
    batches = [batch.num_rows for part in planned(reader) for batch in reader.read(part)]
    assert sum(batches) == EARLY + LATE
    assert len(batches) >= QUEUES


def test_a_group_that_is_set_tells_the_broker_how_far_it_is(broker: LocalBroker, stream: Stream) -> None:
    with BlockingConnection(broker.broker) as connection:

        def told(group: str) -> list[int]:
            return [
                connection.call(QueryConsumerOffset(group, "orders", queue)).offset for queue in range(QUEUES)
            ]

        reader = stream(groupId="lake")
        reader.commit(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
        assert told("lake") == [20, 10]
