"""Leases of masters: a new one waits until nobody else may answer."""

from __future__ import annotations

import contextlib

import pytest

from orbitmq.controller.leases import OpenLeases
from orbitmq.controller.live import MAX_TIMEOUT_MS
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import CleanBrokerData, ControllerElectMaster
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker


def pair(timeout_ms: int = TIMEOUT_MS) -> tuple[ControllerStory, StoryBroker, StoryBroker]:
    """A group whose first member is master and has a lease, the second in sync."""
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.is_master, second.is_master = True, False
    first.epoch, first.timeout_ms = 1, timeout_ms
    first.beat()
    second.beat()
    first.report_in_sync(1, 2)
    return story, first, second


def master(story: ControllerStory) -> tuple[int | None, int]:
    group = story.controller.groups.get("broker-a")
    assert group is not None
    return group.master_id, group.master_epoch


def test_a_lease_is_over_at_its_time_or_when_its_holder_gives_it_up() -> None:
    leases = OpenLeases()
    leases.open("a", 100, 1)
    leases.open("a", 300, 2)
    leases.open("a", 200, 2)
    assert (leases.left_ms("a", 0), leases.left_ms("b", 0)) == (300, 0)
    assert leases.ended("a", 2)
    assert not leases.ended("a", 2)
    assert (leases.left_ms("a", 0), leases.left_ms("a", 100)) == (100, 0)


@pytest.mark.parametrize("overheard", [True, False])
def test_a_new_leader_waits_for_a_master_that_it_has_not_heard_from_the_beginning_of_its_reign(
    overheard: bool,
) -> None:
    """The leader before may have answered a heartbeat that did not come here. One from before its reign says
    nothing about the end of the lease.
    """
    story, first, second = pair(timeout_ms=20_000)
    story.pass_time(15_000)
    second.beat()
    story.takes_over([first] if overheard else [])
    second.beat()
    for _ in range(4):
        story.pass_time(5_000)
        second.beat()
        with contextlib.suppress(Refused):
            second.elect()
        assert master(story) == (1, 1), "its lease is 20 s long, as the store knows"
    story.pass_time(1)
    assert master(story) == (2, 2)


def test_an_end_that_a_new_leader_sees_itself_counts_at_once() -> None:
    story, first, second = pair()
    story.takes_over([first, second])
    second.beat()
    first.die()
    assert master(story) == (2, 2)
    assert second.replica_info().wait_ms is None


def test_a_master_that_begins_anew_under_a_new_leader_has_given_up_its_lease() -> None:
    story, first, second = pair()
    story.takes_over([second])
    second.beat()
    first.register()
    assert master(story) == (2, 2)


def test_a_lease_that_was_promised_does_not_get_shorter_by_a_later_heartbeat() -> None:
    story, first, second = pair(timeout_ms=20_000)
    first.timeout_ms = 100
    first.beat()
    for _ in range(4):
        story.pass_time(5_000)
        second.beat()
    assert master(story) == (1, 1)


def test_the_lease_of_an_election_is_that_of_its_master() -> None:
    story, first, second = pair(timeout_ms=20_000)
    first.die()
    second.is_master, second.epoch = True, 2
    second.beat()
    first.epoch, first.is_master = 2, False
    first.register()
    first.beat()
    second.report_in_sync(1, 2)
    story.takes_over()
    first.beat()
    story.pass_time(TIMEOUT_MS)
    first.beat()
    assert master(story) == (2, 2)
    story.pass_time(1)
    assert master(story) == (1, 3)


def test_a_heartbeat_that_would_count_for_longer_than_the_controller_waits_is_refused() -> None:
    story, first, _ = pair()
    before = dict(story.stored)
    first.timeout_ms = MAX_TIMEOUT_MS + 1
    with pytest.raises(Refused, match="controllerHeartBeatTimeoutMills") as refused:
        first.beat()
    assert refused.value.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert story.stored == before


def test_whom_an_operator_elects_waits_until_the_living_master_has_given_up_its_lease() -> None:
    story, first, second = pair()
    story.pass_time(1_000)
    first.beat()
    second.beat()
    assert second.elect(designate=True).wait_ms == TIMEOUT_MS
    story.pass_time(2_000)
    assert second.replica_info().wait_ms == TIMEOUT_MS - 2_000
    story.told.clear()
    first.is_master = False
    with pytest.raises(Refused):
        first.beat()  # on its way since before the election
    assert second.replica_info().wait_ms
    first.known_epoch = 2
    with pytest.raises(Refused):
        first.beat()
    story.commit()
    assert second.replica_info().wait_ms is None
    assert [one.master_epoch for address, one in story.told if address == second.address] == [2]


def test_a_master_before_that_is_cut_off_delays_the_new_one_by_its_lease_and_no_longer() -> None:
    story, _, second = pair()
    second.elect(designate=True)
    story.pass_time(TIMEOUT_MS)
    second.beat()
    assert second.replica_info().wait_ms is None


def test_a_controller_that_takes_over_knows_that_the_new_master_may_still_have_to_wait() -> None:
    story, _, second = pair()
    second.elect(designate=True)
    story.pass_time(1_000)
    story.takes_over()
    assert second.replica_info().wait_ms == TIMEOUT_MS
    story.pass_time(TIMEOUT_MS)
    second.is_master, second.epoch = True, 2
    second.beat()
    story.takes_over()
    assert second.replica_info().wait_ms is None, "it has begun, so no other lease holds"


def test_an_operator_need_not_wait_for_a_new_leader_to_hear_the_master_but_the_elected_one_waits() -> None:
    story, _, second = pair()
    story.takes_over()
    second.beat()
    reply = story.ask(ControllerElectMaster("C", "broker-a", 2, True))
    assert (reply.master_broker_id, reply.wait_ms) == (2, TIMEOUT_MS)


def test_the_lease_of_a_master_that_was_only_overheard_counts_from_the_beginning_of_the_reign() -> None:
    story, first, second = pair()
    story.pass_time(3_000)
    story.takes_over([first, second])
    assert second.elect(designate=True).wait_ms == TIMEOUT_MS


def test_a_master_that_is_removed_while_it_lives_may_answer_until_its_lease_is_over() -> None:
    story, _, second = pair()
    story.ask(CleanBrokerData("broker-a", "C", "1", True))
    story.pass_time(100)
    assert second.replica_info().wait_ms == TIMEOUT_MS - 100
    story.takes_over()
    assert second.replica_info().wait_ms == TIMEOUT_MS


def test_brokers_without_leases_are_not_waited_for() -> None:
    """Apache's masters go on until they hear of another one, however long that takes."""
    _, first, second = pair()
    first.is_master = None
    first.beat()
    assert second.elect(designate=True).wait_ms is None
