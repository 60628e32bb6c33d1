"""The state of a role: what a change of it leaves behind, and whom a slave believes about its master."""

from __future__ import annotations

from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.broker.role.state import RoleState

OWN = ("127.0.0.1:10911", "127.0.0.1:10912")
FOLLOW = RoleChange(Role.SLAVE, 3, master_address="m:1", master_ha_address="m:2")


def state(**values: object) -> RoleState:
    return RoleState(BrokerSettings(**values), 1, OWN)  # type: ignore[arg-type]


def test_a_fenced_broker_has_no_role_and_takes_nothing() -> None:
    role = state()
    assert (role.current, role.is_master) == (Role.MASTER, True)
    role.fence()
    assert (role.current, role.is_master, role.is_slave) == (Role.UNKNOWN, False, True)
    role.lead()
    assert role.current is Role.MASTER


def test_readers_of_a_broker_that_waits_for_its_controller_see_nothing_and_never_more_by_a_cut() -> None:
    role = state()
    role.await_controller()
    role.hold_readers(500)
    assert role.held_at == 0, "less is shown already"
    role.release_readers()
    role.hold_readers(500)
    role.note_confirmed(700)
    role.note_cut(600)
    assert (role.held_at, role.master_confirmed) == (500, 600)
    role.note_cut(400)
    assert (role.held_at, role.master_confirmed) == (400, 400)


def test_epochs_and_what_a_master_has_confirmed_only_grow() -> None:
    role = state()
    role.begin_epoch(4)
    role.begin_epoch(0)
    role.note_confirmed(70)
    role.note_confirmed(50)
    assert (role.epoch, role.master_confirmed) == (4, 70)


def test_a_slave_follows_whom_a_name_server_names_but_not_itself() -> None:
    role = state(broker_role="SLAVE", broker_id=1)
    role.note_master("m:1", "m:2")
    role.note_master(OWN[0], "elsewhere:1")
    role.note_master("elsewhere:1", OWN[1])
    role.note_master("elsewhere:1", None)
    assert (role.master_address, role.ha_address) == ("m:1", "m:2")
    role.note_announced(None, "m:3")
    assert (role.master_address, role.ha_address) == ("m:1", "m:3")
    role.forget_master()
    assert role.ha_address == ""


def test_in_controller_mode_only_an_election_names_the_master() -> None:
    role = state(enable_controller_mode=True, controller_addr="c:1", broker_role="SLAVE", broker_id=1)
    role.note_master("m:1", "m:2")
    assert role.ha_address == ""
    role.follow(FOLLOW)
    assert (role.ha_address, role.slave_id) == ("m:2", 3)
