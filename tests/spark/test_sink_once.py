"""A batch that is run again sends nothing twice, on OrbitMQ and on Apache's broker.

The tasks are called as Spark calls them, so that they can be ended at any row and any answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import ConnectionLost
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.spark.sink import writer
from orbitmq.spark.sink.counts import Counts
from orbitmq.spark.sink.errors import CannotLookUp, WriteFailed
from orbitmq.spark.sink.identity import PartitionIdentity
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.shape import Shape
from orbitmq.testing import LocalBroker
from tests.spark.conftest import Server, create_topic

ROWS = 1000
PATIENCE_SECONDS = 60


def bodies(count: int = ROWS) -> list[str]:
    return [f"row {row}" for row in range(count)]


def batches(count: int = ROWS, *, dies_after: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, a hundred at a time; ends as a task does that is killed."""
    for start in range(0, count, 100):
        if dies_after is not None and start >= dies_after:
            raise Killed
        yield pa.record_batch({"body": bodies(count)[start : start + 100]})


class Killed(Exception):
    """The task is no more."""


def write(
    server: Server, topic: str, rows: Iterator[pa.RecordBatch], *, attempt: int = 0, **given: str
) -> Counts:
    settings = {"namesrv": server.namesrv, "topic": topic, "idempotent": "true", "batchSize": "16"}
    return writer.write_partition(
        rows, WriteOptions.parse(settings | given), Shape(body=0), PartitionIdentity("w", 7, 0), attempt
    )


def stored(server: Server, topic: str) -> Counter[str]:
    """Every body in the topic, and how often."""
    found: Counter[str] = Counter()
    with BlockingConnection(server.broker) as broker:
        for queue_id in range(4):
            end = broker.call(GetMaxOffset(topic, queue_id)).offset
            at = 0
            while at < end:
                answer = broker.call(
                    PullMessage(
                        consumer_group="TOOLS_CONSUMER",
                        topic=topic,
                        queue_id=queue_id,
                        queue_offset=at,
                        max_msg_nums=32,
                        sys_flag=4,
                        commit_offset=0,
                        suspend_timeout_millis=0,
                        subscription="*",
                        sub_version=0,
                        expression_type="TAG",
                    ),
                    10_000,
                )
                found.update(record.body.decode() for record in decode_records(answer.body or b"")[0])
                at = answer.next_begin_offset
    return found


def test_a_task_that_died_is_carried_on(server: Server, topic: str) -> None:
    with pytest.raises(Killed):
        write(server, topic, batches(dies_after=500))
    counts = write(server, topic, batches(), attempt=1)
    assert stored(server, topic) == Counter(bodies())
    assert counts.already_there > 0
    assert counts.messages + counts.already_there == ROWS


def test_a_batch_that_was_sent_and_not_committed_is_not_sent_again(server: Server, topic: str) -> None:
    assert write(server, topic, batches()).messages == ROWS
    again = write(server, topic, batches())
    assert (again.messages, again.already_there) == (0, ROWS)
    assert stored(server, topic) == Counter(bodies())


def test_delayed_messages_are_found_while_they_wait(server: Server, topic: str) -> None:
    for delay in ({"delayLevel": "4"}, {"delayMs": "30000"}):
        identity = {"batchSize": "4"} | delay
        if delay != {"delayLevel": "4"}:
            topic = f"{topic}_timer"
            create_topic(server, topic)
        assert write(server, topic, batches(20), **identity).messages == 20
        again = write(server, topic, batches(20), **identity)
        assert (again.messages, again.already_there) == (0, 20)
        assert not stored(server, topic), "nothing is due before 30 s have passed"


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_a_task_sends_no_more_in_a_second_than_it_may(orbitmq_server: LocalBroker, idempotent: str) -> None:
    topic = f"sink_at_a_rate_{idempotent}"
    create_topic(orbitmq_server, topic)
    rate, rows = 400, 500
    began = time.monotonic()
    given = {"idempotent": idempotent, "maxMessagesPerSecondPerTask": str(rate), "batchSize": "128"}
    counts = write(orbitmq_server, topic, batches(rows), **given)
    at_once = rate // 10
    assert time.monotonic() - began >= (rows - at_once) / rate
    assert counts.messages == rows
    assert counts.requests >= rows / at_once, "evenly, a tenth of a second's at a time"


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every fifth answer to a batch is lost on its way: the broker has stored it, and nobody is told."""
    lost: list[int] = []
    answers = [0]
    receive = BlockingConnection.receive

    def receive_most(connection: BlockingConnection, timeout_ms: float) -> Command:
        command = receive(connection, timeout_ms)
        if command.ext is not None and "queueOffset" in command.ext:
            answers[0] += 1
            if answers[0] % 5 == 0:
                lost.append(answers[0])
                connection.close()
                raise ConnectionLost(connection.address, "lost for the test")
        return command

    monkeypatch.setattr(BlockingConnection, "receive", receive_most)
    # Bytes that an ended connection still holds are there at once on this machine.
    monkeypatch.setattr("orbitmq.spark.sink.seen.IN_FLIGHT_SECONDS", 0.2)
    return lost


def test_a_lost_answer_makes_no_message_come_twice(server: Server, topic: str, losing: list[int]) -> None:
    counts = write(server, topic, batches(300))
    assert losing
    assert counts.already_there > 0
    assert counts.retries > 0
    assert stored(server, topic) == Counter(bodies(300))


def test_without_it_nothing_is_lost_and_some_may_come_twice(
    orbitmq_server: LocalBroker, losing: list[int]
) -> None:
    create_topic(orbitmq_server, "sink_at_least_once")
    counts = write(orbitmq_server, "sink_at_least_once", batches(300), idempotent="false")
    assert losing
    assert counts.messages == 300
    found = stored(orbitmq_server, "sink_at_least_once")
    assert set(found) == set(bodies(300))
    assert found.total() > 300


def test_a_broker_that_restarts_meanwhile_is_waited_for(tmp_path: object) -> None:
    with LocalBroker(own_process=True) as server:
        create_topic(server, "restarted")

        def rows() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches(600)):
                if number == 3:
                    server.kill()
                    server.start()
                yield batch

        counts = write(server, "restarted", rows())
        assert counts.retries > 0
        assert stored(server, "restarted") == Counter(bodies(600))


def test_an_index_that_is_off_is_an_error_and_not_a_promise_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.spark.sink.seen.SHOWN_WITHIN_SECONDS", 0.5)
    with LocalBroker(messageIndexEnable="false") as server:
        create_topic(server, "unindexed")
        with pytest.raises(CannotLookUp, match="Is messageIndexEnable off"):
            write(server, "unindexed", batches())


def test_a_refusal_that_will_not_pass_fails_at_once() -> None:
    with LocalBroker(maxMessageSize="2000") as server:
        create_topic(server, "small")
        began = time.monotonic()
        rows = iter([pa.record_batch({"body": ["x" * 3000]})])
        with pytest.raises(WriteFailed, match="1 messages to small were refused: MESSAGE_ILLEGAL"):
            write(server, "small", rows, timeoutMs=str(PATIENCE_SECONDS * 1000))
        assert time.monotonic() - began < PATIENCE_SECONDS
