"""A consensus store that was restored: its epochs and in-sync sets are those of an older time."""

from __future__ import annotations

import contextlib

import pytest

from orbitmq.controller.groups import MAX_EPOCHS_AHEAD
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import ControllerElectMaster
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker
from tests.unit.controller.test_leases import master


def restored(known: int = 5) -> tuple[ControllerStory, list[StoryBroker]]:
    """Three members: the store knows epoch 1, with 1 and 2 in sync; member 3 has had epoch `known`."""
    story = ControllerStory()
    members = [StoryBroker(story) for _ in range(3)]
    members[0].elect()
    members[0].report_in_sync(1, 2)
    backup = dict(story.stored)
    story.takes_over()
    story.stored = backup
    story.takes_over()
    for member, epoch, end in zip(members, (1, 3, known), (9_000, 700, 500), strict=True):
        member.epoch, member.max_offset, member.is_master = epoch, end, False
    return story, members


def beat(*members: StoryBroker) -> None:
    """Heartbeats, which are noted though they may be refused."""
    for member in members:
        with contextlib.suppress(Refused):
            member.beat()


def test_nobody_is_master_until_all_members_were_heard_and_then_the_most_complete_log_wins() -> None:
    story, (first, second, third) = restored()
    beat(third)
    assert master(story) == (None, 5)
    beat(first)
    story.pass_time(TIMEOUT_MS - 1)
    assert master(story) == (None, 5)
    with pytest.raises(Refused, match=r"restored.*missing: 2\)"):
        first.elect()
    with pytest.raises(Refused, match="missing: 2"):
        third.beat()
    beat(second)
    assert master(story) == (3, 6)
    assert third.replica_info().body.sync_state_set == {3}


def test_the_last_epoch_that_a_broker_has_heard_of_counts_where_its_log_lacks_it() -> None:
    story, (first, second, third) = restored(known=3)
    third.known_epoch = 8
    beat(third, first, second)
    assert master(story) == (2, 9), "of epoch 3, the log of 2 is longer"


def test_a_controller_that_takes_over_knows_that_the_store_was_restored() -> None:
    story, (first, second, third) = restored()
    beat(third)
    story.takes_over([third])
    beat(first, second)
    assert master(story) == (None, 5), "what the leader before has heard may be outdated"
    beat(third)
    assert master(story) == (3, 6)


@pytest.mark.parametrize("named", [2, -1])
def test_an_operator_need_not_wait_for_members_that_are_gone(named: int) -> None:
    story, (first, second, third) = restored()
    third.known_epoch, third.epoch = 5, 1
    beat(third, second)
    with pytest.raises(Refused, match=r"broker 2 has the most complete log \(epoch 3, up to 700\)"):
        story.ask(ControllerElectMaster("C", "broker-a", 3, True))
    reply = story.ask(ControllerElectMaster("C", "broker-a", named, named != -1))
    assert (reply.master_broker_id, reply.master_epoch) == (2, 6)
    assert reply.wait_ms == TIMEOUT_MS, "member 1 was not heard, and may have a lease"
    assert first.replica_info().master_broker_id == 2


def test_a_master_that_the_store_does_not_know_gets_no_new_lease_and_the_next_one_waits_for_it() -> None:
    story, (first, second, third) = restored()
    second.is_master = True
    beat(third)
    beat(second)
    beat(first)
    assert master(story) == (3, 6)
    assert third.replica_info().wait_ms


def test_a_master_whose_in_sync_set_is_newer_than_the_stores_is_alone_in_it_until_it_reports() -> None:
    """The store of an older time names members in sync that have left since."""
    story, (first, second, _) = restored()
    first.is_master, first.epoch, first.set_epoch = True, 1, 7
    second.epoch = 1
    beat(first, second)
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert (group.sync_state_set, group.sync_state_set_epoch) == ({1}, 8)
    first.die()
    assert master(story) == (None, 1)


def test_no_member_is_elected_from_an_older_set_before_the_master_was_heard() -> None:
    """Member 2 has left the set since the store's time, and has heard of that: it may lack messages."""
    story, (_, second, _) = restored()
    second.epoch, second.set_epoch = 1, 8
    beat(second)
    story.pass_time(2 * TIMEOUT_MS)
    beat(second)
    assert master(story) == (None, 1)
    with pytest.raises(Refused, match=r"change 8 of its in-sync set.*missing: 1, 3\)"):
        second.beat()


def test_the_master_of_the_stores_epoch_stays_though_another_member_tells_of_a_later_set() -> None:
    story, (first, second, _) = restored()
    first.is_master, first.epoch, first.set_epoch = True, 1, 7
    second.epoch, second.set_epoch = 1, 8
    beat(second)
    first.beat()
    second.beat()
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert (group.master_id, group.sync_state_set, group.sync_state_set_epoch) == (1, {1}, 9)
    first.die()
    assert master(story) == (None, 1)


def test_a_member_may_be_so_far_ahead_and_no_further() -> None:
    story, (first, _, _) = restored()
    first.epoch = 1 + MAX_EPOCHS_AHEAD + 1
    with pytest.raises(Refused, match="too far ahead") as refused:
        first.beat()
    assert refused.value.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert story.controller.live.get(("broker-a", 1)) is None
    first.epoch, first.set_epoch = 1, 2 + MAX_EPOCHS_AHEAD + 1
    with pytest.raises(Refused, match="too far ahead"):
        first.beat()
    first.epoch, first.set_epoch = 1 + MAX_EPOCHS_AHEAD, None
    beat(first)
    assert master(story) == (None, 1 + MAX_EPOCHS_AHEAD)


def test_a_new_member_with_the_log_of_another_group_ends_no_reign() -> None:
    story = ControllerStory()
    StoryBroker(story).elect()
    stranger = StoryBroker.__new__(StoryBroker)
    with pytest.raises(Refused, match="another group or store"):
        _join(stranger, story, epoch=4)
    assert master(story) == (1, 1)


def _join(broker: StoryBroker, story: ControllerStory, epoch: int) -> None:
    class WithEpoch(StoryBroker):
        def beat(self) -> object:
            self.epoch = epoch
            return super().beat()

    broker.__class__ = WithEpoch
    broker.__init__(story)  # type: ignore[misc]
