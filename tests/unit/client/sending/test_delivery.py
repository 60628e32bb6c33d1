"""Sends that wait out an outage."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from orbitmq.client.core.errors import NoMasterNow, NotRunning, SendFailed
from orbitmq.client.core.events import ClientEvent, ClientEventKind
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.message import Message
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.producer.producer import Producer
from orbitmq.client.sending import delivery
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from orbitmq.protocol.schema.declare import Reply
from orbitmq.testing.simulation.loop import VirtualLoop
from tests.kit.client_queues import until
from tests.kit.fake_broker import FakeBroker


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.client.sending.delivery.FIRST_PAUSE_SECONDS", 0.01)


def failing(times: int) -> Iterator[Reply | Refused]:
    for _ in range(times):
        yield Refused(14, "service not available")
    while True:
        yield SendReply("0" * 32, 0, 0)


async def test_a_send_waits_for_a_broker_that_comes_back(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    answers, events = failing(10), list[ClientEvent]()
    broker.on(SendMessageV2, lambda _: next(answers))
    async with Producer("g", broker.address, on_event=events.append) as producer:
        assert producer.healthy
        sending = asyncio.create_task(producer.send(Message("T", b"x")))
        await until(lambda: not producer.healthy)
        assert isinstance(producer.errors["delivery"], SendFailed)
        result = await sending
        assert producer.healthy
    asked = broker.of(SendMessageV2)
    assert len(asked) == 11
    assert {request.properties for request in asked} == {asked[0].properties}, "one id, tried again"
    assert result.message_id in (asked[0].properties or "")
    kinds = [event.kind for event in events]
    assert kinds == [ClientEventKind.CONNECTED, ClientEventKind.UNANSWERED, ClientEventKind.ANSWERED]
    assert isinstance(events[1].error, SendFailed)


def elected(broker: FakeBroker, *, has_master: bool) -> None:
    """A topic whose brokers are slaves, or one of which was elected."""
    broker.topic("T", 4)
    (row,) = broker.topics["T"].broker_datas
    row.broker_addrs = {0 if has_master else 2: broker.address}


async def test_a_send_waits_for_a_master_that_is_elected(broker: FakeBroker) -> None:
    elected(broker, has_master=True)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    async with Producer("g", broker.address) as producer:
        await producer.send(Message("T", b"x"))
        elected(broker, has_master=False)
        await producer._running()[0].routes.refresh("T")
        sending = asyncio.create_task(producer.send(Message("T", b"y")))
        await until(lambda: not producer.healthy)
        assert isinstance(producer.errors["delivery"], (NoMasterNow, SendFailed))
        elected(broker, has_master=True)
        await sending
        assert producer.healthy


async def test_a_master_that_is_never_elected_is_told_in_time(broker: FakeBroker) -> None:
    elected(broker, has_master=False)
    async with Producer("g", broker.address, delivery_timeout_ms=100) as producer:
        with pytest.raises(NoMasterNow, match="none of its brokers has a master now"):
            await producer.send(Message("T", b"x"))


def test_a_new_route_is_found_within_a_tenth_of_a_second_and_later_ones_are_asked_for_seldom() -> None:
    """On a clock that stands still while the client works: each pause is one that it makes."""
    loop, asked = VirtualLoop(random.Random(1)), list[float]()

    async def refresh(topic: str) -> None:
        asked.append(loop.time())

    async def fail_for_a_second() -> None:
        instance = ClientInstance(ProducerOptions("g", "127.0.0.1:9"), "127.0.0.1", producer_groups=["g"])
        instance.routes.refresh = refresh  # type: ignore[method-assign]
        while loop.time() < began + 1.2:
            instance.refresh_route_soon("T")
            await asyncio.sleep(0.001)
        await instance.close()

    began = loop.time()
    try:
        loop.run_until_complete(fail_for_a_second())
    finally:
        loop.close()
    assert asked[0] - began < 0.01
    assert asked[1] - began < 0.1
    assert len(asked) == 5


async def test_after_its_time_the_failures_are_told(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The third pause would end after the time for the delivery.
    pauses = iter((0.0, 0.0, 1_000_000.0))
    monkeypatch.setattr(delivery, "random", SimpleNamespace(uniform=lambda low, high: next(pauses)))
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: Refused(14, "service not available"))
    async with Producer("g", broker.address, delivery_timeout_ms=60_000) as producer:
        with pytest.raises(SendFailed, match="the last 3: broker-a: SERVICE_NOT_AVAILABLE") as failed:
            await producer.send(Message("T", b"x"))
        assert len(failed.value.failures) == len(broker.of(SendMessageV2)) == 3 * 3
        assert not producer.healthy


@pytest.mark.parametrize("code", [1, 13, 16, 17])
async def test_what_time_does_not_mend_is_told_at_once(broker: FakeBroker, code: int) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: Refused(code, "no"))
    async with Producer("g", broker.address) as producer:
        with pytest.raises(Exception, match="no"):
            await asyncio.wait_for(producer.send(Message("T", b"x")), 30)
    assert len(broker.of(SendMessageV2)) <= 3


async def test_a_name_server_that_never_answered_is_told_at_once(broker: FakeBroker) -> None:
    await broker.stop()
    async with Producer("g", broker.address) as producer:
        with pytest.raises(NoNameServer):
            await asyncio.wait_for(producer.send(Message("T", b"x")), 30)


async def test_connections_that_end_are_told_and_a_send_waits_for_the_next_one() -> None:
    first = await FakeBroker().start()
    first.topic("T", 1)
    first.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    events = list[ClientEvent]()
    async with Producer("g", first.address, on_event=events.append) as producer:
        await producer.send(Message("T", b"x"))
        await first.stop()
        sending = asyncio.create_task(producer.send(Message("T", b"y")))
        await until(lambda: not producer.healthy)
        second = FakeBroker()
        second.topics, second.address = first.topics, first.address
        second.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 1))
        await second.start(first.port)
        assert (await sending).queue_offset == 1
        told = [event.kind for event in events]
        for kind in (ClientEventKind.DISCONNECTED, ClientEventKind.RECONNECTED, ClientEventKind.ANSWERED):
            assert kind in told
    await second.stop()


async def test_closing_ends_a_send_that_waits(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    producer = await Producer("g", broker.address).start()
    await producer.send(Message("T", b"connected now"))
    broker.on(SendMessageV2, lambda _: Refused(14, "service not available"))
    sending = asyncio.create_task(producer.send(Message("T", b"x"), timeout_ms=200))
    await broker.until(lambda: len(broker.of(SendMessageV2)) > 1)
    await asyncio.wait_for(producer.close(), 30)
    with pytest.raises((SendFailed, NotRunning)):
        await sending
