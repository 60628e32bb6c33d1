from __future__ import annotations

from orbitmq.client.sending.latency import LatencyTable
from orbitmq.client.sending.queue_choice import RoundRobin, queue_of_key
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.hashing import java_hash

QUEUES = [MessageQueue("T", broker, n) for broker in ("a", "b") for n in range(2)]


def test_queues_come_in_turn() -> None:
    chooser = RoundRobin()
    first = [chooser.next(QUEUES, 0) for _ in range(4)]
    assert sorted(first) == QUEUES
    assert [chooser.next(QUEUES, 0) for _ in range(4)] == first


def test_a_retry_goes_to_another_broker() -> None:
    chooser = RoundRobin()
    assert {chooser.next(QUEUES, 0, "a").broker_name for _ in range(8)} == {"b"}


def test_a_retry_stays_where_there_is_no_other() -> None:
    assert RoundRobin().next(QUEUES[:2], 0, "a").broker_name == "a"


def test_slow_brokers_are_left_alone_unless_all_are_slow() -> None:
    table = LatencyTable()
    chooser = RoundRobin(table)
    table.answered("a", 2000, 0)
    assert {chooser.next(QUEUES, 100).broker_name for _ in range(8)} == {"b"}
    table.failed("b", 0, reachable=False)
    assert {chooser.next(QUEUES, 100).broker_name for _ in range(8)} == {"a"}
    table.failed("a", 0, reachable=False)
    assert {chooser.next(QUEUES, 100).broker_name for _ in range(8)} == {"a", "b"}
    assert {chooser.next(QUEUES, 100, "a").broker_name for _ in range(8)} == {"b"}


def test_a_key_has_one_queue_the_one_that_java_takes() -> None:
    queues = [MessageQueue("T", "a", n) for n in range(7)]
    assert queue_of_key(queues, "order-1").queue_id == abs(java_hash("order-1")) % 7
    # The one text whose hash has no absolute value in 32 bits: 2^31 modulo the number of queues.
    assert queue_of_key(queues, "polygenelubricants").queue_id == 2**31 % 7
