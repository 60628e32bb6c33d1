"""The brokers that may become master of a broker group."""

import pytest

from orbitmq.controller.group import UNKNOWN_LOSS
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import ControllerElectMaster
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker


def _pair(**settings: object) -> tuple[ControllerStory, StoryBroker, StoryBroker]:
    """A group whose first member is master, the second in sync."""
    story = ControllerStory(**settings)
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.report_in_sync(1, 2)
    story.told.clear()
    return story, first, second


def _master(story: ControllerStory) -> tuple[int | None, int]:
    group = story.controller.groups.get("broker-a")
    assert group is not None
    return group.master_id, group.master_epoch


def test_the_first_member_that_asks_is_master() -> None:
    story = ControllerStory()
    first = StoryBroker(story)
    reply = first.elect()
    assert (reply.code, reply.master_broker_id, reply.master_epoch) == (0, 1, 1)
    assert reply.body.sync_state_set == {1}
    assert StoryBroker(story).register().master_address == first.address


def test_the_first_epoch_is_1_although_its_master_has_said_before_that_it_has_had_none() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.epoch = second.epoch = -1
    first.beat()
    second.beat()
    first.elect()
    assert _master(story) == (1, 1)
    assert second.elect().master_broker_id == 1
    assert _master(story) == (1, 1)


def test_a_master_that_has_begun_anew_reigns_in_a_new_epoch_only() -> None:
    """A power cut may have taken the end of its log, which its slaves have: in the same epoch nobody could
    tell what it stores now from what it had there before.
    """
    story = ControllerStory()
    first = StoryBroker(story)
    first.elect()
    assert first.register().master_address is None
    first.beat()
    assert _master(story) == (1, 2)


def test_an_in_sync_replica_takes_over_from_a_master_that_has_begun_anew() -> None:
    story, first, second = _pair()
    assert first.register().master_address == second.address
    assert _master(story) == (2, 2)
    first.beat()
    assert _master(story) == (2, 2)


def test_a_living_master_stays_who_ever_asks() -> None:
    story, first, second = _pair()
    reply = second.elect()
    assert reply.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert (reply.master_broker_id, reply.master_address) == (1, first.address)
    assert _master(story) == (1, 1)


def test_when_the_masters_connection_ends_an_in_sync_replica_takes_over_at_once() -> None:
    story, first, second = _pair()
    first.die()
    assert _master(story) == (2, 2)
    assert [address for address, _ in story.told] == [second.address]
    notice = story.told[0][1]
    assert (notice.master_broker_id, notice.master_epoch, notice.body.sync_state_set) == (2, 2, {2})


def test_a_silent_master_is_replaced_after_its_time_limit_and_not_before() -> None:
    story, _, second = _pair()
    story.pass_time(TIMEOUT_MS - 1)
    second.beat()
    assert _master(story) == (1, 1)
    story.pass_time(2)
    assert _master(story) == (2, 2)


def test_the_replica_with_the_longest_log_of_the_newest_epoch_is_preferred() -> None:
    story, first, second = _pair()
    third, fourth = StoryBroker(story), StoryBroker(story)
    first.report_in_sync(1, 2, 3, 4)
    for broker, epoch, offset in ((second, 1, 500), (third, 1, 900), (fourth, 0, 2000)):
        broker.epoch, broker.max_offset = epoch, offset
        broker.beat()
    first.die()
    assert _master(story) == (third.id, 2)


def test_a_replica_that_is_not_in_sync_never_takes_over_by_itself() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.die()
    assert _master(story) == (None, 1)
    with pytest.raises(Refused) as refused:
        second.elect(designate=True)
    assert refused.value.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    with pytest.raises(Refused) as refused:
        story.ask(ControllerElectMaster("C", "broker-a", -1, False))
    assert refused.value.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE


def test_the_last_in_sync_replica_is_master_again_when_it_is_back() -> None:
    story = ControllerStory()
    first, _ = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.die()
    first.beat()
    assert _master(story) == (1, 2)


def test_where_it_is_allowed_another_replica_takes_over_and_the_loss_is_counted() -> None:
    story = ControllerStory(enable_elect_unclean_master=True)
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.max_offset, second.max_offset = 5000, 4200
    first.beat()
    second.beat()
    first.die()
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert group.master_id == 2
    assert (group.elections[-1].is_unclean, group.elections[-1].lost_bytes) == (True, 800)


def test_an_operator_moves_the_master_and_its_outage_is_not_counted() -> None:
    story, _, second = _pair()
    reply = second.elect(designate=True)
    assert (reply.code, reply.master_broker_id, reply.master_epoch) == (0, 2, 2)
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert group.elections[-1].reason == "asked for by an operator"
    assert group.elections[-1].without_master_ms == 0


def test_an_election_tells_for_how_long_the_group_was_without_a_master() -> None:
    story, first, second = _pair()
    story.now += 1_500
    second.beat()
    first.die()
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert group.elections[-1].without_master_ms == 1_500


def test_a_heartbeat_of_an_epoch_that_is_over_is_refused() -> None:
    _, first, second = _pair()
    first.epoch = 1
    second.elect(designate=True)
    with pytest.raises(Refused) as refused:
        first.beat()
    assert refused.value.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH


def test_brokers_learn_nothing_of_an_election_that_the_store_did_not_take() -> None:
    story, first, _ = _pair()
    story.controller.connection_closed(first.connection, story.now)
    story.controller.step_down()
    story.commit()
    assert story.told == []
    story.takes_over()
    assert _master(story) == (1, 1)


def test_on_a_new_store_epochs_go_on_behind_those_that_the_brokers_know() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.epoch, second.epoch = 6, 7
    first.beat()
    second.beat()
    assert second.elect().master_epoch == 8


def test_an_epoch_stands_for_one_election_also_where_a_reign_ends_without_a_successor() -> None:
    """The list of elections had epochs 1, 1, 2, 3 after this order: the end of a reign was noted as an
    election, with the epoch that ended. There was one master for each epoch, as there has to be.
    """
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    story.pass_time(TIMEOUT_MS + 1)
    assert _master(story) == (None, 1)
    first.beat()
    second.beat()
    assert _master(story) == (1, 2)
    first.report_in_sync(1, 2)
    first.die()
    assert _master(story) == (2, 3)
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert [(one.master_epoch, one.master_id) for one in group.elections] == [(1, 1), (2, 1), (3, 2)]
    assert [one.ended_ms for one in group.elections] == [story.now, None, None]
    assert "no heartbeat in time; no in-sync replica is alive" in group.elections[0].ended_because


def _loses_its_last_in_sync_replica(story: ControllerStory) -> StoryBroker:
    """The other broker, which is not in sync and is away, too."""
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.max_offset, second.max_offset = 5000, 4200
    first.beat()
    second.die()
    first.die()
    return second


def test_an_unclean_election_that_is_allowed_later_counts_its_loss_and_the_outage() -> None:
    story = ControllerStory()
    second = _loses_its_last_in_sync_replica(story)
    story.settings.enable_elect_unclean_master = True
    story.now += 60_000
    second.beat()
    story.pass_time(1)
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert (group.master_id, group.elections[-1].lost_bytes) == (2, 800)
    assert group.elections[-1].without_master_ms >= 60_000


def test_a_controller_that_never_heard_the_master_says_that_the_loss_is_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = ControllerStory()
    second = _loses_its_last_in_sync_replica(story)
    story.settings.enable_elect_unclean_master = True
    story.takes_over()
    second.beat()
    group = story.controller.groups.get("broker-a")
    assert group is not None
    assert (group.master_id, group.elections[-1].lost_bytes) == (2, UNKNOWN_LOSS)
    assert "an unknown number of bytes lost" in caplog.text
