"""Questions to brokers and name servers, and answers that only some of them give."""

from __future__ import annotations

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.planning import Queue
from tests.kit.spark_broker import FOUND, NOT_FOUND, Answer, FakeBroker, pull_answer

MIN_OFFSET, MAX_OFFSET, BY_TIME = 31, 30, 29
HOST = pack_host("127.0.0.1", 1)


def offset_answer(offset: int) -> Command:
    return Command(0, 0, FLAG_RESPONSE, {"offset": str(offset)}, None)


def refusal(code: int, remark: str) -> Command:
    return Command(code, 0, FLAG_RESPONSE, None, None, remark)


def stored(offset: int) -> bytes:
    """Message n, stored at n * 1000 ms."""
    out = bytearray(300)
    size = encode_record(out, 0, 0, 0, offset, 0, 0, 0, HOST, offset * 1000, HOST, 0, 0, b"body", b"t", b"")
    return bytes(out[:size])


@pytest.mark.parametrize(
    ("named", "expected"), [(3, 3), (2, 3), (4, None)], ids=["it", "the one before", "behind the last"]
)
def test_the_message_that_a_broker_names_for_a_time_is_looked_at(named: int, expected: int | None) -> None:
    """Brokers before release 5 name the nearest one."""

    def answer(request: Command) -> Answer:
        assert request.ext is not None
        if request.code == BY_TIME:
            return offset_answer(named)
        offset = int(request.ext["queueOffset"])
        return pull_answer(FOUND, offset + 1, stored(offset)) if offset < 4 else pull_answer(NOT_FOUND, 4)

    with FakeBroker(answer) as broker, Cluster(()) as cluster:
        queue = Queue("t", "b", 0, broker.address)
        assert cluster.offsets_at({queue: 2500}, "g") == {queue: expected}


def test_the_bounds_of_many_queues_come_over_one_connection_in_any_order() -> None:
    def answer(request: Command) -> Answer:
        assert request.ext is not None
        number = int(request.ext["queueId"])
        return offset_answer(number if request.code == MIN_OFFSET else number * 2)

    with FakeBroker(answer, reverse=True) as broker, Cluster(()) as cluster:
        queues = [Queue("t", "b", number, broker.address) for number in range(300)]
        assert cluster.bounds(queues) == {queue: (queue.queue_id, queue.queue_id * 2) for queue in queues}


def test_a_broker_that_does_not_answer_is_told_beside_those_that_do() -> None:
    with FakeBroker(lambda _: offset_answer(5)) as broker, Cluster(()) as cluster:
        here, away = Queue("t", "a", 0, broker.address), Queue("t", "b", 0, "127.0.0.1:1")
        found = cluster.bounds_within_reach([here, away])
        assert found.bounds == {here: (5, 5)}
        assert list(found.away) == ["b"]
        with pytest.raises(NetError, match=r"cannot connect to 127\.0\.0\.1:1"):
            cluster.bounds([here, away])


def test_a_connection_that_broke_meanwhile_is_made_anew_once() -> None:
    asked = 0

    def every_second_breaks(_: Command) -> Answer:
        nonlocal asked
        asked += 1
        return None if asked == 3 else offset_answer(asked)

    with FakeBroker(every_second_breaks) as broker, Cluster(()) as cluster:
        queue = Queue("t", "b", 0, broker.address)
        assert cluster.bounds([queue]) == {queue: (1, 2)}
        assert cluster.bounds([queue])[queue][1] > 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (refusal(23, "parse failed"), "broker b cannot read 'a >' as SQL92: parse failed"),
        (
            refusal(1, "The broker does not support consumer to filter message by SQL92"),
            "enablePropertyFilter",
        ),
    ],
)
def test_expressions_are_tried_before_tasks_come_with_them(answer: Command, says: str) -> None:
    with FakeBroker(lambda _: answer) as broker, Cluster(()) as cluster:
        with pytest.raises(BadOption, match=says):
            cluster.check_expression(Queue("t", "b", 0, broker.address), "a >", "SQL92", "g")
        assert b'"SQL92"' in (broker.requests[0].body or b"")


def test_what_a_name_server_does_not_know() -> None:
    with FakeBroker(lambda _: refusal(17, "No topic route info")) as namesrv:
        with Cluster((namesrv.address,)) as cluster:
            assert cluster.queues_of("t") is None
        with Cluster((namesrv.address,)) as cluster, pytest.raises(BadOption, match="topic t does not exist"):
            cluster.readable_queues(["t"])


def test_name_servers_that_are_broken_or_away() -> None:
    with (
        FakeBroker(lambda _: refusal(1, "broken")) as namesrv,
        Cluster((namesrv.address,)) as cluster,
        pytest.raises(BrokerRefused, match="broken"),
    ):
        cluster.queues_of("t")
    with (
        Cluster(("127.0.0.1:1", "127.0.0.1:2")) as cluster,
        pytest.raises(SparkSourceError, match=r"no name server answers: .*:1: .*:2: "),
    ):
        cluster.queues_of("t")


def test_a_close_amid_a_question_leaves_no_connection() -> None:
    with FakeBroker(lambda request: offset_answer(7)) as broker:
        cluster = Cluster(())
        connections: list[BlockingConnection] = []

        def question(connection: BlockingConnection) -> int:
            cluster.close()  # as another thread may do now
            connections.append(connection)
            return connection.call(GetMaxOffset("t", 0)).offset

        for _ in range(2):
            assert cluster.ask(broker.address, question) == 7
        assert connections[0] is not connections[1]
        for connection in connections:
            with pytest.raises(NetError):
                connection.call(GetMaxOffset("t", 0))
