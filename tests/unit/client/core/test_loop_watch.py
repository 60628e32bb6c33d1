"""A handler that blocks the event loop is named in the log, and in the consumer's report."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker

LOGGER = "orbitmq.client.handlers"


async def test_a_handler_that_blocks_is_named(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1")
    told: list[int] = []

    def wait_for_the_bank() -> None:
        until_ = time.monotonic() + 60
        while not any(row.name == LOGGER for row in caplog.records) and time.monotonic() < until_:
            time.sleep(0.01)

    async def handle(message: ReceivedMessage) -> None:
        wait_for_the_bank()
        told.append(len([row for row in caplog.records if row.name == LOGGER]))

    with caplog.at_level(logging.WARNING, "orbitmq"):
        async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
            consumer.subscribe("T", "*", handle)
            await until(lambda: len(told) == 2)
            assert consumer._session is not None
            watch = consumer._session.watch
            await until(lambda: watch.blocked.times)
            assert consumer._serving is not None
            properties = consumer._serving._properties()
    [record] = [row for row in caplog.records if row.name == LOGGER]
    text = record.getMessage()
    assert "the event loop has been blocked for a second, at " in text
    assert " in handle, " in text
    assert " in wait_for_the_bank" in text
    assert told == [1, 1]
    assert properties["PROP_LOOP_BLOCKED_TIMES"] == "1"
    assert "wait_for_the_bank" in properties["PROP_LOOP_BLOCKED_AT"]
    assert int(properties["PROP_LOOP_BLOCKED_LONGEST_MS"]) >= 1000


async def test_a_loop_that_waits_and_a_plain_handler_in_a_thread_block_nothing(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    queues, done = Queues(broker, "T"), list[bytes]()
    queues.put(b"0")

    def handle(message: ReceivedMessage) -> None:
        time.sleep(1.5)
        done.append(message.body)

    with caplog.at_level(logging.WARNING, "orbitmq"):
        async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET) as consumer:
            consumer.subscribe("T", "*", handle)
            await until(lambda: done)
            assert consumer._session is not None
            assert consumer._session.watch.blocked.times == 0
    await asyncio.sleep(0)
    assert not [row for row in caplog.records if row.name == LOGGER]
