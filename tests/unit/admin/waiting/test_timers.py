import time

import pytest

from orbitmq import Admin, Message, Producer
from orbitmq.admin.brokers import update_broker_config
from orbitmq.admin.waiting.timers import TimerScan, recall
from orbitmq.protocol.errors import NoPermission
from orbitmq.testing import LocalBroker
from tests.kit.waiting_messages import HOUR_MS


async def scanned(admin: Admin, topic: str = "", budget: int = 1000) -> TimerScan:
    scan = TimerScan(admin, topic, budget)
    async for _ in scan.run():
        pass
    return scan


async def test_timers_are_found_with_their_times_and_places(
    admin: Admin, waiting_broker: tuple[LocalBroker, list[str]]
) -> None:
    _, ids = waiting_broker
    scan = await scanned(admin, "later")
    assert [(one.unique_id, one.keys) for one in scan.soonest(10)] == [
        (ids[0], ("timer-1",)),
        (ids[1], ("timer-26",)),
    ]
    now = time.time() * 1000
    [first, second] = scan.soonest(10)
    assert first.due_ms == pytest.approx(now + HOUR_MS, abs=120_000)
    assert [one.unique_id for one in scan.soonest(10, from_ms=int(now) + 2 * HOUR_MS)] == [ids[1]]
    assert [one.unique_id for one in scan.soonest(10, to_ms=second.due_ms)] == [ids[0]]
    assert sum(scan.slots().values()) == 2
    assert scan.is_complete
    assert (await scanned(admin, "elsewhere")).count == 0


async def test_the_budget_ends_a_scan_which_says_so(admin: Admin) -> None:
    scan = await scanned(admin, budget=1)
    assert (scan.scanned, scan.is_complete) == (1, False)


async def test_a_timer_that_was_taken_back_is_gone(
    admin: Admin, waiting_broker: tuple[LocalBroker, list[str]]
) -> None:
    broker, _ = waiting_broker
    broker.create_topic("recalled", 1)
    async with Producer("p", broker.namesrv) as producer:
        kept = await producer.send(Message("recalled", b"kept", delay_ms=HOUR_MS))
        await producer.send(Message("recalled", b"gone", delay_ms=2 * HOUR_MS))
    [_, gone] = (await scanned(admin, "recalled")).soonest(10)
    assert gone.is_recallable
    await recall(admin, gone.broker, gone.topic, gone.due_ms, gone.unique_id)
    assert [one.unique_id for one in (await scanned(admin, "recalled")).soonest(10)] == [kept.message_id]


async def test_a_broker_that_forbids_recalls_says_so(
    admin: Admin, waiting_broker: tuple[LocalBroker, list[str]]
) -> None:
    broker, _ = waiting_broker
    [timer, *_] = (await scanned(admin, "later")).soonest(1)
    await update_broker_config(admin, broker.broker, {"recallMessageEnable": "false"})
    try:
        with pytest.raises(NoPermission, match="recallMessageEnable"):
            await recall(admin, timer.broker, timer.topic, timer.due_ms, timer.unique_id)
    finally:
        await update_broker_config(admin, broker.broker, {"recallMessageEnable": "true"})
