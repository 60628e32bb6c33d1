"""Evidence from a real broker and real consumers."""

import asyncio
from collections.abc import Iterator

import pytest

from orbitmq import Admin, Message, Producer, PushConsumer
from orbitmq.admin.diagnosis.gathering import gather
from orbitmq.admin.diagnosis.rules import diagnose
from orbitmq.admin.resets import EARLIEST, LATEST, preview_reset
from orbitmq.client import FIRST_OFFSET, ReceivedMessage
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.testing import LocalBroker
from tests.kit.scripted_admin import alone


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


async def fill(namesrv: str, topic: str, count: int) -> None:
    async with Producer("filling", namesrv) as producer:
        await producer.send_all([Message(topic, b"x") for _ in range(count)])


async def cause(admin: Admin, group: str) -> str:
    return diagnose(await gather(admin, group, 0.2))[0].cause


async def test_a_group_from_unknown_over_working_to_left_behind(broker: LocalBroker) -> None:
    broker.create_topic("lives", 4)
    got = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        got.set()

    async with Admin(broker.namesrv) as admin:
        assert await cause(admin, "lives") == "UNKNOWN_GROUP"
        await fill(broker.namesrv, "lives", 20)
        consumer = PushConsumer("lives", broker.namesrv, consume_from_where=FIRST_OFFSET)
        consumer.subscribe("lives", "*", handle)
        async with consumer:
            await asyncio.wait_for(got.wait(), 60)
            while (await gather(admin, "lives", 0)).lag:
                pass
            evidence = await gather(admin, "lives", 0)
            [member] = evidence.members
            assert member.answered
            assert member.subscriptions["lives"] == "*"
            assert {queue.queue_id for queue in member.held if queue.topic == "lives"} == {0, 1, 2, 3}
            assert await cause(admin, "lives") == "NOT_BEHIND"
        await fill(broker.namesrv, "lives", 8)
        assert await cause(admin, "lives") == "NO_CONSUMER"
        assert (await gather(admin, "livse", 0)).near == ("lives",)
        preview = await preview_reset(admin, "lives", "lives", EARLIEST)
        assert (sum(one.again for one in preview), sum(one.skipped for one in preview)) == (20, 0)
        preview = await preview_reset(admin, "lives", "lives", LATEST)
        assert (sum(one.again for one in preview), sum(one.skipped for one in preview)) == (0, 8)


async def test_members_that_subscribe_differently_and_handlers_that_fail_are_found(
    broker: LocalBroker,
) -> None:
    broker.create_topic("differ", 4)

    async def fail(message: ReceivedMessage) -> None:
        raise ValueError("no such customer")

    async with Admin(broker.namesrv) as admin:
        first = PushConsumer("differ", broker.namesrv, consume_from_where=FIRST_OFFSET)
        first.subscribe("differ", "*", fail)
        async with first:
            await fill(broker.namesrv, "differ", 8)
            while await cause(admin, "differ") != "HANDLER_FAILS":
                pass
            second = PushConsumer("differ", broker.namesrv, consume_from_where=FIRST_OFFSET)
            second.subscribe("differ", "new", fail)
            async with second:
                while await cause(admin, "differ") != "SUBSCRIPTIONS_DIFFER":
                    pass


async def test_a_broker_that_refuses_is_not_gone() -> None:
    refusal = Refused(ResponseCode.NO_PERMISSION, "User:ann has no permission")
    async with alone({GetBrokerRuntimeInfo: refusal}) as peer, Admin(peer.address) as admin:
        found = await gather(admin, "billing", 0)
        assert (found.brokers_gone, list(found.forbidden)) == ({}, ["a"])
        assert diagnose(found)[0].cause == "NOT_PERMITTED"
        peer.answers[GetBrokerRuntimeInfo] = Refused(ResponseCode.SYSTEM_BUSY, "later")
        assert await cause(admin, "billing") == "BROKER_REFUSES"
