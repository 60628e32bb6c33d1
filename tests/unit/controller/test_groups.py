"""Ids, addresses, in-sync sets and cleaning up: what brokers and tools may change, and what they may not."""

import pytest

from orbitmq.controller.group import BrokerGroup, UnreadableGroup
from orbitmq.protocol.bodies.ha import BrokerNames, SyncStateSet
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerGetMetadataInfo,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerGetSyncStateData,
    ControllerRegisterBroker,
    GetControllerConfig,
    UpdateControllerConfig,
)
from orbitmq.protocol.schema.declare import Request
from tests.kit.controller_story import ControllerStory, StoryBroker


def _code(story: ControllerStory, request: Request) -> int:
    with pytest.raises(Refused) as refused:
        story.ask(request)
    return refused.value.code


def test_the_same_broker_gets_its_id_again_another_one_does_not() -> None:
    story = ControllerStory()
    first = StoryBroker(story)
    story.ask(ControllerApplyBrokerId("C", "broker-a", 1, first.check_code))
    bad = ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert _code(story, ControllerApplyBrokerId("C", "broker-a", 1, "other;2")) == bad
    assert _code(story, ControllerApplyBrokerId("C", "broker-new", 2, "other;2")) == bad
    assert story.ask(ControllerGetNextBrokerId("C", "broker-a")).next_broker_id == 2


def test_an_id_is_never_given_to_another_broker() -> None:
    story = ControllerStory()
    StoryBroker(story)
    second = StoryBroker(story)
    second.die()
    story.ask(CleanBrokerData("broker-a", "C", "2"))
    assert story.ask(ControllerGetNextBrokerId("C", "broker-a")).next_broker_id == 3
    bad = ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert _code(story, ControllerApplyBrokerId("C", "broker-a", 2, "other;2")) == bad


def test_who_is_not_known_has_to_register() -> None:
    story = ControllerStory()
    StoryBroker(story)
    unknown = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert _code(story, ControllerRegisterBroker("C", "broker-x", 1, "127.0.0.1:1")) == unknown
    assert _code(story, ControllerRegisterBroker("C", "broker-a", 7, "127.0.0.1:1")) == unknown
    missing = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
    assert _code(story, ControllerGetReplicaInfo("broker-x")) == missing


def test_a_broker_that_moved_is_known_by_its_new_address() -> None:
    story = ControllerStory()
    first = StoryBroker(story)
    first.elect()
    first.die()
    first.address = "127.0.0.1:55555"
    first.register()
    first.beat()
    assert first.replica_info().master_address == "127.0.0.1:55555"


def test_a_copied_data_folder_does_not_take_the_place_of_the_living_broker() -> None:
    story = ControllerStory()
    StoryBroker(story)
    with pytest.raises(Refused, match="brokerIdentity") as refused:
        story.ask(ControllerRegisterBroker("C", "broker-a", 1, "127.0.0.1:55555"))
    assert refused.value.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_only_the_master_of_the_current_epoch_reports_who_is_in_sync() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    assert first.report_in_sync(1, 2).new_sync_state_set_epoch == 2

    def alter(master: int, epoch: int, new: set[int], set_epoch: int) -> int:
        body = SyncStateSet(new, set_epoch)
        return _code(story, ControllerAlterSyncStateSet("broker-a", master, epoch, body=body))

    failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    assert alter(1, 1, {1, 2}, 2) == failed, "the same set"
    assert alter(2, 1, {2}, 2) == ResponseCode.CONTROLLER_INVALID_MASTER
    assert alter(1, 0, {1}, 2) == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert alter(1, 1, {1}, 1) == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert alter(1, 1, {1, 9}, 2) == ResponseCode.CONTROLLER_INVALID_REPLICAS
    assert alter(1, 1, {2}, 2) == failed, "without the master"
    first.report_in_sync(1)
    second.die()
    assert alter(1, 1, {1, 2}, 3) == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE


def test_a_living_member_is_cleaned_only_if_that_is_asked_for() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    invalid = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert _code(story, CleanBrokerData("broker-a", "C", "2")) == invalid
    assert _code(story, CleanBrokerData("broker-a", "C", "9")) == invalid
    assert _code(story, CleanBrokerData("broker-a", "C", "two")) == invalid
    assert _code(story, CleanBrokerData("broker-x")) == invalid
    second.die()
    story.ask(CleanBrokerData("broker-a", "C", "2"))
    story.ask(CleanBrokerData("broker-a", "C", None, True))
    assert story.stored == {}


def test_groups_are_shown_with_who_lives_and_their_elections() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    second.die()
    shown = story.ask(ControllerGetSyncStateData(BrokerNames(["broker-a", "nobody"]))).body
    assert list(shown.replicas_info_table) == ["broker-a"]
    group = shown.replicas_info_table["broker-a"]
    assert [(one.broker_id, one.alive) for one in group.in_sync_replicas] == [(1, True)]
    assert [(one.broker_id, one.alive) for one in group.not_in_sync_replicas] == [(2, False)]
    assert [(one.master_epoch, one.reason) for one in group.elections] == [(1, "asked for by broker 1")]


def test_a_controller_that_does_not_lead_says_who_does() -> None:
    story = ControllerStory()
    leadership = story.controller.leadership
    story.controller.step_down()
    leadership.leader_id, leadership.peers = "c2", {"c1": "127.0.0.1:1", "c2": "127.0.0.1:2"}
    said = story.ask(ControllerGetMetadataInfo())
    assert (said.controller_leader_address, said.is_leader) == ("127.0.0.1:2", False)
    assert said.peers == "c1:127.0.0.1:1;c2:127.0.0.1:2;"
    assert _code(story, ControllerGetReplicaInfo("broker-a")) == ResponseCode.CONTROLLER_NOT_LEADER


def test_a_controller_whose_lease_is_over_answers_nothing_as_leader() -> None:
    story = ControllerStory()
    first = StoryBroker(story)
    story.controller.leadership.lease_until_ms = story.now
    with pytest.raises(Refused) as refused:
        first.beat()
    assert refused.value.code == ResponseCode.CONTROLLER_NOT_LEADER


def test_changed_options_hold_for_the_next_leader() -> None:
    story = ControllerStory()
    story.ask(UpdateControllerConfig(b"enableElectUncleanMaster=true"))
    story.settings = type(story.settings)()
    story.takes_over()
    assert b"enableElectUncleanMaster=true\n" in bytes(story.ask(GetControllerConfig()).body)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"storeAddress=etcd://elsewhere:1", ResponseCode.NO_PERMISSION),
        (b"configBlackList=", ResponseCode.NO_PERMISSION),
        (b"enableElectUncleanMaster=perhaps", ResponseCode.INVALID_PARAMETER),
        (b"noSuchOption=1", ResponseCode.INVALID_PARAMETER),
        (b"a" * 70_000, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_options_that_may_not_change_are_refused(text: bytes, code: int) -> None:
    assert _code(ControllerStory(), UpdateControllerConfig(text)) == code


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "replicas": 3}'])
def test_what_the_store_should_not_hold_is_named(text: str) -> None:
    with pytest.raises(UnreadableGroup):
        BrokerGroup.from_text(text)
