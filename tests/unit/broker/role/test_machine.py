"""Reports of a broker to its controllers; its steps are told as stories (`tests/scenario/role`)."""

from __future__ import annotations

from orbitmq.broker.role.machine import Elected
from tests.kit.role_story import RoleStory


def test_a_slave_tells_of_the_last_change_of_the_set_that_a_controller_has_told_of_in_that_epoch() -> None:
    machine = RoleStory(own_id=2).machine
    assert machine.heartbeat().set_epoch is None

    def heard(epoch: int, set_epoch: int) -> tuple[int | None, int | None]:
        machine.heard(Elected(1, "host-1:10911", epoch, frozenset({1, 2}), set_epoch))
        beat = machine.heartbeat()
        return beat.known_epoch, beat.set_epoch

    assert heard(3, 8) == (3, 8)
    assert heard(3, 7) == (3, 8), "an answer that comes late"
    assert heard(4, 2) == (4, 2), (
        "behind a store that was restored, changes are counted from a smaller number"
    )
    machine.known_epoch = 5
    assert machine.heartbeat().set_epoch is None


def test_a_broker_that_has_lost_its_id_does_not_follow_its_master_of_before() -> None:
    story = RoleStory(own_id=0)
    story.settings.enable_blind_master = True
    story.machine.remembered = Elected.followed("host-1:10911", 3)
    story.machine.nobody_answers()
    assert story.machine.next_step(story.now) is None
