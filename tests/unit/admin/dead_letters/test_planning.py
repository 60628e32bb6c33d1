"""The plan of a redrive: the dead letters that it would send, and how the group's filter decides on them."""

from __future__ import annotations

import asyncio

from orbitmq import Admin, PushConsumer, ReceivedMessage
from orbitmq.admin.dead_letters.asked import Asked
from orbitmq.admin.dead_letters.journal import RedriveJournal
from orbitmq.admin.dead_letters.planning import Planning
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant


async def test_a_dry_run_tells_what_the_filter_of_the_group_drops(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("filtered", 1)
    await plant(broker.namesrv, "g6", 4, origin("filtered", TAGS="a"))
    await plant(broker.namesrv, "g6", 3, origin("filtered", TAGS="b"))
    plans = Planning(admin, "here", journal)

    async def ignore(message: ReceivedMessage) -> None:
        raise AssertionError(message)

    async with PushConsumer("g6", broker.namesrv) as reader:
        reader.subscribe("filtered", "b || c", ignore)
        async with asyncio.timeout(60):
            # Nothing here hears of the broker's members: it is asked until it knows them.
            while not (effect := (await plans.preview("g6", Asked())).filters["filtered"]).known:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert (effect.expression, effect.passes, effect.drops) == ("b || c", 3, 4)
