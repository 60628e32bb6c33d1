import asyncio

import pytest

from orbitmq import Admin
from orbitmq.admin.waiting.transactions import check_again, transactions
from orbitmq.protocol.errors import BrokerRefused, NotFound
from orbitmq.protocol.names import HALF_TOPIC, TRANSACTION_GROUP
from orbitmq.protocol.requests.offset import QueryConsumerOffset


async def test_half_messages_without_a_decision_are_listed_and_decided_ones_are_not(admin: Admin) -> None:
    found = await transactions(admin)
    assert [bytes(one.message.body) for one in found.open] == [b"half 1", b"half 2"]
    assert {(one.topic, one.group, one.checks) for one in found.open} == {("later", "deciders", 0)}
    assert found.is_complete
    assert (found.given_up, found.errors) == ([], [])


async def first_half(admin: Admin) -> int:
    """The offset from which on the broker has half messages that may be open."""
    [master] = await admin.masters()
    try:
        return (
            await admin.call(master.address, QueryConsumerOffset(TRANSACTION_GROUP, HALF_TOPIC, 0))
        ).offset
    except NotFound:
        return 0


async def test_the_budget_leaves_the_rest_out_and_says_so(admin: Admin) -> None:
    # The broker passes the first one, which is decided, once its log is on the disk.
    async with asyncio.timeout(60):
        while await first_half(admin) < 1:  # noqa: ASYNC110 - the broker's own time
            await asyncio.sleep(0.02)
    found = await transactions(admin, budget=1)
    assert [bytes(one.message.body) for one in found.open] == [b"half 1"]
    assert not found.is_complete


async def test_a_half_message_is_checked_again_by_its_id_and_nothing_else_is(admin: Admin) -> None:
    [first, *_] = (await transactions(admin)).open
    await check_again(admin, first.broker, first.message.offset_id)
    assert len((await transactions(admin)).open) == 2
    with pytest.raises(BrokerRefused):
        await check_again(admin, first.broker, "00" * 16)
