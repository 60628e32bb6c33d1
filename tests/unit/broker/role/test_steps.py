"""The order of the steps of a change of role: what has to be over before what begins."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.broker.role.steps import ChangeStep, beginning, leaving

TO_MASTER, TO_SLAVE, TO_NONE = (
    RoleChange(Role.MASTER, 0),
    RoleChange(Role.SLAVE, 1),
    RoleChange(Role.UNKNOWN, 1),
)
HANDS_OVER = RoleChange(Role.SLAVE, 1, hands_over=True)


@pytest.mark.parametrize(("role", "change"), list(product(Role, (TO_MASTER, TO_SLAVE, TO_NONE, HANDS_OVER))))
def test_a_role_ends_fenced_without_waiting_calls_tasks_or_sockets(role: Role, change: RoleChange) -> None:
    steps = list(leaving(role, change))
    assert steps[0] is ChangeStep.FENCE
    order = [ChangeStep.END_WAITING, ChangeStep.STOP_SOCKETS, ChangeStep.WITHDRAW, ChangeStep.FORGET_MASTER]
    assert [step for step in steps if step in order] == order
    assert steps.index(ChangeStep.STOP_TASKS) < steps.index(ChangeStep.STOP_SOCKETS)
    assert (ChangeStep.END_MASTERSHIP in steps) is (role is Role.MASTER)


def test_only_a_master_that_hands_over_stores_what_it_has_in_memory_and_acknowledges_until_then() -> None:
    """After another one was elected, the logs would go different ways."""
    steps = list(leaving(Role.MASTER, HANDS_OVER))
    order = [
        ChangeStep.STOP_TASKS,
        ChangeStep.STORE_MEMORY,
        ChangeStep.LEVEL_SLAVES,
        ChangeStep.END_WAITING,
        ChangeStep.STOP_SOCKETS,
    ]
    assert [step for step in steps if step in order] == order
    for role, change in ((Role.MASTER, TO_SLAVE), (Role.SLAVE, HANDS_OVER), (Role.UNKNOWN, HANDS_OVER)):
        assert ChangeStep.STORE_MEMORY not in leaving(role, change)


def test_a_master_takes_messages_once_its_epoch_is_durable_and_all_of_its_log_is_confirmed() -> None:
    steps = list(beginning(TO_MASTER, has_controller=True))
    order = [
        ChangeStep.BEGIN_EPOCH,
        ChangeStep.LISTEN,
        ChangeStep.CONFIRM_ALL,
        ChangeStep.TAKE_MESSAGES,
        ChangeStep.BEGIN_MASTERSHIP,
        ChangeStep.LEAD,
    ]
    assert [step for step in steps if step in order] == order
    assert all(first is not second for first, second in pairwise(steps))
    assert ChangeStep.BEGIN_EPOCH not in beginning(TO_MASTER, has_controller=False)


def test_a_slave_takes_no_messages_and_a_broker_without_a_role_does_nothing() -> None:
    assert list(beginning(TO_SLAVE, has_controller=True)) == [ChangeStep.NOTE_ROLE, ChangeStep.FOLLOW]
    assert list(beginning(TO_NONE, has_controller=True)) == []
