"""Requests of operators to a consumer: what it does, one message by hand, other offsets."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.handlers import RETRY, Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.running import CMResult
from orbitmq.protocol.requests.client import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
)
from orbitmq.protocol.requests.offset import (
    GetConsumerStatusFromClient,
    GetMaxOffset,
    ResetConsumerClientOffset,
)
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.client_messages import record, stored
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


class Asking:
    """Asks a client what brokers ask, and waits for its answer."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def __call__(self, request: Any) -> Any:
        connection = next(c for c in self._broker.connections if not c.is_closed)
        return await connection.call(request, 30_000)


async def test_an_operator_may_ask_what_a_consumer_does(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1")
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(2)
        ask = Asking(broker)
        info = (await ask(GetConsumerRunningInfo("g", consumer.client_id, True))).body
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert {row.topic for row in info.subscription_set} == {"T", "%RETRY%g"}
        assert info.mq_table[MessageQueue("T", "broker-a", 0)].cached_msg_count == 0
        assert info.status_table["T"].consume_failed_msgs == 0
        assert "test_an_operator" in info.jstack
        status = (await ask(GetConsumerStatusFromClient("T", "g"))).body
        assert status.message_queue_table == {MessageQueue("T", "broker-a", 0): 2}
        for request in (GetConsumerRunningInfo("other", "id"), ConsumeMessageDirectly("other", "id")):
            with pytest.raises(Exception, match="does not exist in this client"):
                await ask(request)
        with pytest.raises(Exception, match="not supported"):
            await ask(GetMaxOffset("T", 0))


async def test_an_operator_may_hand_over_one_message(broker: FakeBroker) -> None:
    Queues(broker, "T")
    seen: list[tuple[str, bytes]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.topic, message.body))
        if message.body == b"raise":
            raise RuntimeError("handler says no")
        return RETRY if message.body == b"later" else None

    async with PushConsumer("g", broker.address) as consumer:
        consumer.subscribe("T", "*", handle)
        await until(lambda: consumer.queues)
        ask = Asking(broker)
        results = []
        for body in (b"fine", b"later", b"raise"):
            request = ConsumeMessageDirectly("g", consumer.client_id, "id", "broker-a")
            request.body = record(stored(9, body, topic="%RETRY%g", RETRY_TOPIC="T"))
            results.append((await ask(request)).body)
        # Of its own topic, whatever its sender says.
        request.body = record(stored(9, b"forged", topic="Other", RETRY_TOPIC="T"))
        await ask(request)
    assert seen.pop() == ("Other", b"forged")
    assert seen == [("T", b"fine"), ("T", b"later"), ("T", b"raise")]
    assert [result.consume_result for result in results] == [
        CMResult.CR_SUCCESS,
        CMResult.CR_LATER,
        CMResult.CR_THROW_EXCEPTION,
    ]
    assert "handler says no" in results[2].remark
    assert not broker.of(ConsumerSendMsgBack)


async def test_a_message_handed_over_with_too_large_a_body_is_answered_with_the_reason(
    broker: FakeBroker,
) -> None:
    Queues(broker, "T")
    seen = Seen()
    async with PushConsumer("g", broker.address, max_inflated_body_bytes=1000) as consumer:
        consumer.subscribe("T", "*", seen)
        await until(lambda: consumer.queues)
        request = ConsumeMessageDirectly("g", consumer.client_id, "id", "broker-a")
        request.body = record(stored(9, zlib.compress(bytes(1001)), topic="T", sys_flag=1))
        result = (await Asking(broker)(request)).body
    assert result.consume_result == CMResult.CR_THROW_EXCEPTION
    assert "BodyTooLarge" in result.remark
    assert "max_inflated_body_bytes" in result.remark
    assert not seen


async def test_an_operator_may_set_offsets(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.request_handler.RESET_WAIT_SECONDS", 0.02)
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(*(b"%d" % n for n in range(5)))
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", seen)
        await seen.count(5)
        reset = ResetConsumerClientOffset("g", "T", 0, True)
        reset.body = ResetOffsetBody({MessageQueue("T", "broker-a", 0): 3})
        broker.push(reset)
        await seen.count(7)
    assert [message.body for message in seen[5:]] == [b"3", b"4"]
