"""Members whose process has begun anew, with enableBlindMaster."""

from __future__ import annotations

import pytest

from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import CleanBrokerData, ControllerElectMaster
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker
from tests.unit.controller.test_leases import master
from tests.unit.controller.test_restored import beat


@pytest.fixture
def story() -> ControllerStory:
    return ControllerStory()


@pytest.fixture
def members(story: ControllerStory) -> list[StoryBroker]:
    """Two members in sync, the first one master."""
    found = [StoryBroker(story), StoryBroker(story)]
    for one in found:
        one.register(run=f"{one.id}a")
    found[0].elect()
    found[0].epoch = found[1].epoch = 1
    found[0].report_in_sync(1, 2)
    return found


def in_sync(story: ControllerStory) -> set[int]:
    group = story.controller.groups.get("broker-a")
    assert group is not None
    return set(group.sync_state_set)


@pytest.mark.parametrize(
    ("run", "last_run", "has_all"),
    [
        ("2a", None, True),  # the same process, which registers again
        ("2b", "2a", True),
        ("2b", None, False),
        ("2b", "20", False),  # an older copy of its folder
        (None, None, False),  # the option is off now
    ],
)
def test_a_member_that_may_lack_the_end_of_its_log_leaves_the_set(
    story: ControllerStory, members: list[StoryBroker], run: str | None, last_run: str | None, has_all: bool
) -> None:
    members[1].register(run, last_run)
    assert in_sync(story) == ({1, 2} if has_all else {1})


def test_brokers_without_the_option_stay_as_they_are(story: ControllerStory) -> None:
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.report_in_sync(1, 2)
    second.register()
    assert in_sync(story) == {1, 2}


def test_a_process_elsewhere_with_the_same_id_is_refused_until_an_operator_has_it_begin_without_the_option(
    story: ControllerStory, members: list[StoryBroker]
) -> None:
    """The first one may follow a blind master, and no controller hears it."""
    second = members[1]
    second.die()
    here = second.address
    second.address = "127.0.0.1:19999"
    with pytest.raises(Refused, match=f"registered at {here}.*enableBlindMaster=false"):
        second.register("2b", "2a")
    assert in_sync(story) == {1, 2}
    second.register()
    second.register("2c", "2b")
    assert in_sync(story) == {1}
    assert story.controller.groups.need("broker-a").replicas[2].address == second.address


def test_a_broker_that_was_registered_without_the_option_may_move(
    story: ControllerStory, members: list[StoryBroker]
) -> None:
    third = StoryBroker(story)
    third.die()
    third.address = "127.0.0.1:19999"
    third.register("3a")
    assert story.controller.groups.need("broker-a").replicas[3].address == third.address


def test_it_is_not_elected_until_it_has_joined_again(
    story: ControllerStory, members: list[StoryBroker]
) -> None:
    first, second = members
    second.register("2b")
    first.die()
    second.beat()
    story.pass_time(2 * TIMEOUT_MS)
    assert master(story) == (None, 1)


def test_the_last_one_stays(story: ControllerStory, members: list[StoryBroker]) -> None:
    first, second = members
    first.report_in_sync(1)
    second.die()
    first.register("1b")
    first.beat()
    assert in_sync(story) == {1}
    assert master(story) == (1, 2)


def test_a_report_from_before_it_began_anew_counts_no_more(
    story: ControllerStory, members: list[StoryBroker]
) -> None:
    """Its master has seen it level with the log, and asks for it once it has lost the end."""
    first, second = members
    first.report_in_sync(1)
    group = story.controller.groups.get("broker-a")
    assert group is not None
    second.register("2b")
    with pytest.raises(Refused, match="not the current one"):
        first.report_in_sync(1, 2, set_epoch=group.sync_state_set_epoch)


@pytest.mark.parametrize(("log_epoch", "then"), [(1, {1}), (2, {2})])
def test_an_election_counts_for_nothing_where_its_master_lost_its_log_before_it_began(
    story: ControllerStory, members: list[StoryBroker], log_epoch: int, then: set[int]
) -> None:
    first, second = members
    first.die()
    assert master(story) == (2, 2)
    second.die()
    second.register("2b", epoch=log_epoch)
    assert in_sync(story) == then
    second.epoch = log_epoch
    beat(first, second)
    assert master(story) == (then.pop(), 3)


def test_it_counts_for_nothing_either_once_its_master_was_elected_again(
    story: ControllerStory, members: list[StoryBroker]
) -> None:
    first, second = members
    first.die()
    second.die()
    second.beat()
    assert master(story) == (2, 3)
    story.takes_over()
    second.register("2b", epoch=1)
    assert in_sync(story) == {1}


def test_what_the_master_reports_ends_the_reserve(story: ControllerStory, members: list[StoryBroker]) -> None:
    first, second = members
    first.die()
    third = StoryBroker(story)
    second.report_in_sync(2, 3)
    second.report_in_sync(2)
    second.register("2b", epoch=1)
    assert in_sync(story) == {2}
    assert third.id == 3


class Refusable(StoryBroker):
    """A broker whose heartbeats may be refused."""

    def beat(self) -> None:
        beat(super())  # type: ignore[arg-type]


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_a_group_with_a_past_that_the_store_does_not_know_gets_a_master_by_an_operators_word_alone(
    is_cleaned: bool,
) -> None:
    """It was cleaned, or the store is new; a blind master may have had others than those that come first."""
    story = ControllerStory()
    if is_cleaned:
        StoryBroker(story, run="a").elect()
        story.ask(CleanBrokerData("broker-a", "C", is_clean_living_broker=True))
    first, second = Refusable(story, run="b"), Refusable(story, run="c")
    if is_cleaned:
        with pytest.raises(Refused, match="was cleaned"):
            first.elect()  # even if its log is empty
    first.epoch, first.max_offset, second.epoch, second.max_offset = 2, 500, 2, 900
    beat(first, second)
    for member in (first, second):
        with pytest.raises(Refused, match="its members may have messages"):
            member.elect()
    with pytest.raises(Refused, match="broker 2 has the most complete log"):
        first.elect(designate=True)
    assert story.ask(ControllerElectMaster("C", "broker-a", -1, True)).master_broker_id == 2
    assert master(story) == (2, 3)


def test_a_new_group_and_one_without_the_option_take_the_first_that_asks() -> None:
    story = ControllerStory()
    StoryBroker(story, run="a").elect()
    assert master(story) == (1, 1)
    story.ask(CleanBrokerData("broker-a", "C", is_clean_living_broker=True))
    StoryBroker(story).elect()
    assert master(story) == (1, 2)
