"""Pulls of a queue when its broker fails."""

from __future__ import annotations

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.route import BrokerData, QueueData
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pull import PullMessage
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker

AN_HOUR_MS = 3_600_000


async def test_a_queue_is_read_at_once_from_the_successor_of_a_master_that_died(
    broker: FakeBroker, other_broker: FakeBroker
) -> None:
    consumer, seen = read_from(other_broker, broker)
    async with consumer:
        await other_broker.until(lambda: len(other_broker.of(PullMessage)) == 2)
        lead(broker, broker)
        await other_broker.stop()
        await seen.count(2)
        await until(lambda: consumer.healthy)
    assert [message.body for message in seen] == [b"0", b"1"]


async def test_a_queue_is_read_at_once_from_the_successor_of_a_master_that_refuses(
    broker: FakeBroker, other_broker: FakeBroker
) -> None:
    consumer, seen = read_from(other_broker, broker)
    other_broker.hold(PullMessage)
    async with consumer:
        await other_broker.until(lambda: other_broker.of(PullMessage))
        other_broker.on(PullMessage, lambda _: Refused(14, "no role at present"))
        lead(broker, broker)
        other_broker.release(PullMessage)
        await seen.count(2)
    assert [message.body for message in seen] == [b"0", b"1"]


def read_from(master: FakeBroker, names: FakeBroker) -> tuple[PushConsumer, Seen]:
    """A consumer of a topic with two messages, of which the present master has one."""
    there, successor, seen = Queues(master), Queues(names, "T", "%RETRY%g"), Seen()
    there.put(b"0")
    successor.put(b"0", b"1")
    lead(master, names)
    consumer = PushConsumer(
        "g",
        names.address,
        consume_from_where=FIRST_OFFSET,
        pull_time_delay_when_exception_ms=AN_HOUR_MS,
        consumer_timeout_when_suspend_ms=AN_HOUR_MS,
    )
    consumer.subscribe("T", "*", seen)
    return consumer, seen


def lead(master: FakeBroker, names: FakeBroker) -> None:
    """Has the name server give out another master of the topic's only broker group."""
    names.topics["T"].queue_datas = [QueueData("broker-b", 1, 1, 6)]
    names.topics["T"].broker_datas = [BrokerData("C", "broker-b", {0: master.address})]
