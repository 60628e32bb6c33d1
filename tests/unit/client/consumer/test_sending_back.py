"""Messages whose handlers failed: sent back, copied where that fails, or handled again here."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.handlers import RETRY, Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.offset import (
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2, SendReply
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker


async def test_what_fails_is_sent_back_with_its_level(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"raise", b"retry", b"level", b"dead", b"fine", UNIQ_KEY="U")

    async def handle(message: ReceivedMessage) -> Retry | None:
        match message.body:
            case b"raise":
                raise RuntimeError("no")
            case b"retry":
                return RETRY
            case b"level":
                return Retry(4)
            case b"dead":
                return Retry(-1)
        return None

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) == 4)
        await asyncio.sleep(0.05)
    back = {request.offset // 100: request for request in broker.of(ConsumerSendMsgBack)}
    assert {place: request.delay_level for place, request in back.items()} == {0: 0, 1: 0, 2: 4, 3: -1}
    assert {request.max_reconsume_times for request in back.values()} == {16}
    assert {(r.group, r.origin_topic, r.origin_msg_id) for r in back.values()} == {("g", "T", "U")}
    assert queues.offsets[("T", 0)] == 5


async def test_where_sending_back_fails_a_copy_is_sent(broker: FakeBroker) -> None:
    queues = Queues(broker, "T", "%RETRY%g")
    forged = {"ORIGIN_MESSAGE_ID": "0" * 32, "RETRY_TOPIC": "salaries"}
    queues.put(b"x", KEYS="k", UNIQ_KEY="U", own="1", **forged)
    broker.on(ConsumerSendMsgBack, lambda _: Refused(1, "no"))
    broker.on(SendMessageV2, lambda request: SendReply("0" * 32, 0, 0))

    async def handle(message: ReceivedMessage) -> Retry:
        return RETRY

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(SendMessageV2))
    [copy] = broker.of(SendMessageV2)
    assert (copy.topic, copy.producer_group) == ("%RETRY%g", "CLIENT_INNER_PRODUCER")
    assert (copy.reconsume_times, copy.max_reconsume_times, bytes(copy.body)) == (1, 16, b"x")
    assert decode_properties(copy.properties) == {
        "KEYS": "k",
        "UNIQ_KEY": "U",
        "own": "1",
        "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000000000",
        "RETRY_TOPIC": "T",
        "RECONSUME_TIME": "1",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "3",
    }
    assert queues.offsets[("T", 0)] == 1


async def test_where_that_fails_too_it_is_handled_again_here(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.consuming.AGAIN_SECONDS", 0.05)
    queues = Queues(broker, "T", "%RETRY%g")
    queues.put(b"x", b"y")
    for kind in (ConsumerSendMsgBack, SendMessageV2):
        broker.on(kind, lambda _: Refused(13, "no"))
    seen: list[tuple[bytes, int]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append((message.body, message.reconsume_times))
        return RETRY if seen[-1] == (b"x", 0) else None

    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        await until(lambda: len(seen) == 3)
    assert seen == [(b"x", 0), (b"y", 0), (b"x", 1)]
    assert queues.offsets[("T", 0)] == 2


async def test_a_handler_that_takes_too_long_has_its_message_sent_back(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1")

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            await broker.until(lambda: broker.of(ConsumerSendMsgBack))

    options = {"consume_timeout_ms": 1000}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", handle)
        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
        await until(lambda: broker.of(UpdateConsumerOffset) or True)
    [back] = broker.of(ConsumerSendMsgBack)
    assert (back.offset, back.delay_level) == (0, 3)
    assert queues.offsets[("T", 0)] == 2
