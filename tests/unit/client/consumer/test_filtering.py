"""Subscriptions by expression: what brokers are asked at the start, and told by heartbeats and pulls."""

from __future__ import annotations

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.pull_consumer import PullConsumer
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.client.core.subscription import Sql
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused, Refused
from orbitmq.protocol.requests.client import CheckClientConfig, Heartbeat
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.schema.declare import Void
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker

WANTED = Sql("price > 10")


async def test_a_broker_reads_the_expression_before_anything_is_pulled(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T", "U"), Seen()
    broker.on(CheckClientConfig, lambda _: Void())
    queues.put(b"0", TAGS="any")
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", WANTED, seen)
    consumer.subscribe("U", "a || b", seen)
    async with consumer:
        await seen.count(1)
    [check] = broker.of(CheckClientConfig)
    row = check.body.subscription_data
    assert (check.body.group, row.topic, row.sub_string) == ("g", "T", "price > 10")
    [group] = broker.of(Heartbeat)[-1].body.consumer_data_set
    types = {row.topic: row.expression_type for row in group.subscription_data_set}
    assert types == {"T": "SQL92", "U": "TAG", "%RETRY%g": "TAG"}
    pulls = {request.topic: request for request in broker.of(PullMessage)}
    assert (pulls["T"].expression_type, pulls["U"].expression_type) == ("SQL92", "TAG")
    assert pulls["T"].subscription is None


async def test_a_wrong_expression_fails_the_start(broker: FakeBroker) -> None:
    Queues(broker, "T")
    broker.on(CheckClientConfig, lambda _: Refused(23, "the expression ends too early"))
    consumer = PushConsumer("g", broker.address)
    consumer.subscribe("T", Sql("price >"))
    with pytest.raises(BrokerRefused, match="ends too early") as refused:
        await consumer.start()
    assert refused.value.code == 23
    assert not broker.of(PullMessage)


async def test_a_wrong_expression_that_comes_later_is_told(broker: FakeBroker) -> None:
    Queues(broker, "T")
    broker.on(CheckClientConfig, lambda _: Refused(23, "the expression ends too early"))
    told: list[Exception] = []
    async with PushConsumer("g", broker.address, on_error=told.append) as consumer:
        consumer.subscribe("T", Sql("price >"))
        await until(lambda: told)
        assert "filter of T" in consumer.errors
        broker.on(CheckClientConfig, lambda _: Void())
        consumer.unsubscribe("T")
        consumer.subscribe("T", WANTED)
        await until(lambda: consumer.healthy)
    assert "ends too early" in str(told[0])


@pytest.mark.parametrize("code", [24, 25, 27, 28])
async def test_a_broker_that_has_forgotten_the_filter_is_told_again(broker: FakeBroker, code: int) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    broker.on(CheckClientConfig, lambda _: Void())
    queues.put(b"0")
    heard: list[int] = []

    def pull(request: PullMessage) -> object:
        if request.topic == "T" and not heard:
            heard.append(len(broker.of(Heartbeat)))
            return Refused(code, "who is that?")
        return queues.pull(request)

    broker.on(PullMessage, pull)  # type: ignore[arg-type]
    options = {"consume_from_where": FIRST_OFFSET, "pull_time_delay_when_exception_ms": 10}
    async with PushConsumer("g", broker.address, **options) as consumer:  # type: ignore[arg-type]
        consumer.subscribe("T", WANTED, seen)
        await seen.count(1)
        assert len(broker.of(Heartbeat)) > heard[0]


async def test_a_pull_consumer_brings_its_expression_along(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"0", b"1", TAGS="x")
    async with PullConsumer("g", broker.address) as consumer:
        found = await consumer.pull(MessageQueue("T", "broker-a", 0), 0, tags=WANTED)
    assert len(found) == 2
    [request] = broker.of(PullMessage)
    assert (request.subscription, request.expression_type, request.sys_flag & 4) == ("price > 10", "SQL92", 4)
