from __future__ import annotations

import pytest

from orbitmq.broker.role.role import Role, RoleChange, RoleRequests
from orbitmq.options import RefusedValue


@pytest.mark.parametrize(
    ("role", "broker_id"),
    [(Role.MASTER, 0), (Role.SLAVE, 1), (Role.SLAVE, 7), (Role.UNKNOWN, 0), (Role.UNKNOWN, 3)],
)
def test_a_master_has_id_0_and_a_slave_another_one(role: Role, broker_id: int) -> None:
    RoleChange(role, broker_id).check()


@pytest.mark.parametrize(("role", "broker_id"), [(Role.MASTER, 1), (Role.SLAVE, 0)])
def test_an_id_of_the_other_role_is_refused_with_advice(role: Role, broker_id: int) -> None:
    with pytest.raises(RefusedValue, match="give brokerId together with brokerRole"):
        RoleChange(role, broker_id).check()


@pytest.mark.parametrize(
    ("change", "option"),
    [
        (RoleChange(Role.MASTER, 0), "ASYNC_MASTER"),
        (RoleChange(Role.MASTER, 0, waits_for_replicas=True), "SYNC_MASTER"),
        (RoleChange(Role.SLAVE, 1), "SLAVE"),
        (RoleChange(Role.UNKNOWN, 1), "SLAVE"),
    ],
)
def test_each_role_has_its_value_of_the_option(change: RoleChange, option: str) -> None:
    assert change.broker_role == option


def test_changes_are_carried_out_in_the_order_in_which_they_were_asked_for() -> None:
    requests = RoleRequests()
    first, second = RoleChange(Role.SLAVE, 1), RoleChange(Role.MASTER, 0)
    asked = [requests.ask(first), requests.ask(second)]
    assert list(requests.pending) == asked
    assert [one.change for one in asked] == [first, second]
    assert asked[0].done is not asked[1].done
