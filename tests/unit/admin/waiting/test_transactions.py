import pytest

from orbitmq import Admin
from orbitmq.admin.waiting.transactions import check_again, transactions
from orbitmq.protocol.errors import BrokerRefused


async def test_half_messages_without_a_decision_are_listed_and_decided_ones_are_not(admin: Admin) -> None:
    found = await transactions(admin)
    assert [bytes(one.message.body) for one in found.open] == [b"half 1", b"half 2"]
    assert {(one.topic, one.group, one.checks) for one in found.open} == {("later", "deciders", 0)}
    assert found.is_complete
    assert (found.given_up, found.errors) == ([], [])


async def test_the_budget_leaves_the_rest_out_and_says_so(admin: Admin) -> None:
    found = await transactions(admin, budget=2)
    assert len(found.open) == 1
    assert not found.is_complete


async def test_a_half_message_is_checked_again_by_its_id_and_nothing_else_is(admin: Admin) -> None:
    [first, *_] = (await transactions(admin)).open
    await check_again(admin, first.broker, first.message.offset_id)
    assert len((await transactions(admin)).open) == 2
    with pytest.raises(BrokerRefused):
        await check_again(admin, first.broker, "00" * 16)
