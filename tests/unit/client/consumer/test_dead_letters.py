"""Messages under a policy of the consumer: they wait as it says, and are given up as it says."""

from __future__ import annotations

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.names import MAX_RECONSUME_TIMES
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker

POLICY = DeadLetterPolicy(max_attempts=4, delay_levels=(2, 6), dead_letter_on=(LookupError,))


async def handle(message: ReceivedMessage) -> None:
    match message.body:
        case b"chosen":
            raise Retry(9)
        case b"hopeless":
            raise KeyError("no such customer")
    raise RuntimeError("try again")


def consumer_of(broker: FakeBroker, *, ordered: bool = False) -> PushConsumer:
    return PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        dead_letter_policy=POLICY,
        ordered=ordered,
        suspend_current_queue_time_ms=10,
    )


async def test_a_retry_waits_as_the_policy_says_unless_the_handler_chose(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"again", b"chosen")
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) == 2)
    back = sorted(broker.of(ConsumerSendMsgBack), key=lambda request: request.offset)
    assert [request.delay_level for request in back] == [2, 9]
    assert {request.max_reconsume_times for request in back} == {3}


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
async def test_a_hopeless_message_is_a_dead_letter_after_its_first_delivery(
    broker: FakeBroker, ordered: bool
) -> None:
    queues = Queues(broker, "T")
    queues.lock_all()
    broker.topic("%RETRY%g", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    queues.put(b"hopeless", UNIQ_KEY="U")
    async with consumer_of(broker, ordered=ordered) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: bool(broker.of(SendMessageV2)))
    (copy,) = broker.of(SendMessageV2)
    properties = decode_properties((copy.properties or "").encode())
    assert properties["exception"] == "KeyError"
    assert properties["exceptionAttempt"] == "1"
    assert properties[MAX_RECONSUME_TIMES] == "0"
