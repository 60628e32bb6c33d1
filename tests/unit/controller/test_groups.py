"""Ids, addresses, in-sync sets and cleaning up: what brokers and tools may change, and what they may not."""

import json

import pytest

from orbitmq.controller import groups
from orbitmq.controller.group import BrokerGroup, UnreadableGroup
from orbitmq.controller.live import DEFAULT_TIMEOUT_MS
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
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker


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


def test_a_change_that_leaves_the_set_as_it_is_settles_that_requests_of_before_are_refused() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    late = ControllerAlterSyncStateSet("broker-a", 1, 1, body=SyncStateSet({1, 2}, 1))
    same = ControllerAlterSyncStateSet("broker-a", 1, 1, body=SyncStateSet({1}, 1), renews=True)
    second.die()
    reply = story.ask(same)
    assert (reply.body.sync_state_set, reply.new_sync_state_set_epoch) == ({1}, 2)
    second.beat()
    assert _code(story, late) == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert _code(story, same) == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_the_lease_of_a_cleaned_master_is_waited_for_though_this_leader_has_not_heard_it() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.is_master = True
    first.beat()
    first.report_in_sync(1, 2)
    story.takes_over()
    story.ask(CleanBrokerData("broker-a", "C", "1", True))
    second.beat()
    second.elect()
    assert (second.replica_info().master_broker_id, second.replica_info().wait_ms) == (2, TIMEOUT_MS)
    story.pass_time(TIMEOUT_MS - 1)
    second.beat()
    assert second.replica_info().wait_ms == 1
    story.pass_time(1)
    assert second.replica_info().wait_ms is None


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
    missing = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
    assert _code(story, ControllerGetReplicaInfo("broker-a")) == missing
    assert not story.ask(ControllerGetSyncStateData(BrokerNames(["broker-a"]))).body.replicas_info_table
    assert list(story.controller.groups) == []


def test_a_group_that_was_removed_begins_anew_behind_its_epochs() -> None:
    """A broker of before may come back with its log: an epoch that was given again would name two masters."""
    story = ControllerStory()
    StoryBroker(story).elect()
    story.ask(CleanBrokerData("broker-a", "C", None, True))
    story.takes_over()
    first = StoryBroker(story)
    assert (first.id, first.elect().master_epoch) == (1, 2)


def test_a_member_without_any_epoch_leaves_nothing_behind() -> None:
    story = ControllerStory()
    StoryBroker(story)
    story.ask(CleanBrokerData("broker-a", "C", None, True))
    assert story.stored == {}


def test_a_removed_group_makes_room_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 1)
    story = ControllerStory()
    StoryBroker(story).elect()
    refused = ControllerApplyBrokerId("C", "broker-b", 1, "b")
    assert _code(story, refused) == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    story.ask(CleanBrokerData("broker-a", "C", None, True))
    story.ask(refused)
    assert list(story.stored) == ["groups/broker-b"]


def test_a_member_that_has_not_registered_for_long_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_UNREGISTERED", 2)
    story = ControllerStory()
    StoryBroker(story)
    bad = ResponseCode.CONTROLLER_BROKER_ID_INVALID
    for broker_id in (2, 3):
        story.ask(ControllerApplyBrokerId("C", "broker-a", broker_id, f"stranger {broker_id}"))
    assert _code(story, ControllerApplyBrokerId("C", "broker-a", 4, "one too many")) == bad
    story.takes_over()
    story.ask(ControllerRegisterBroker("C", "broker-a", 3, "127.0.0.1:3"))
    story.pass_time(groups.UNREGISTERED_MS + 1)
    found = story.controller.groups.get("broker-a")
    assert found is not None
    assert sorted(found.replicas) == [1, 3]
    assert story.ask(ControllerGetNextBrokerId("C", "broker-a")).next_broker_id == 4


@pytest.mark.parametrize(
    "request_",
    [
        ControllerApplyBrokerId("C", "broker-a", 2 + groups.MAX_ID_GAP + 1, "x"),
        ControllerApplyBrokerId("C", "broker-a", 1 << 40, "x"),
        ControllerApplyBrokerId("C", "broker-a", 2, "x" * 600),
        ControllerApplyBrokerId("C", "broker\n-b", 1, "x"),
        ControllerApplyBrokerId("C" * 600, "broker-b", 1, "x"),
        ControllerRegisterBroker("C", "broker-a", 1, "no address"),
        ControllerRegisterBroker("C", "broker-a", 1, "host:99999"),
        ControllerRegisterBroker("C", "broker-a", 1, "h" * 600 + ":1"),
    ],
)
def test_numbers_and_texts_have_bounds(request_: Request) -> None:
    story = ControllerStory()
    StoryBroker(story)
    codes = (ResponseCode.CONTROLLER_BROKER_ID_INVALID, ResponseCode.CONTROLLER_INVALID_REQUEST)
    before = dict(story.stored)
    assert _code(story, request_) in codes
    assert story.stored == before


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


def test_a_group_that_an_older_release_has_written_is_read_with_one_election_for_each_epoch() -> None:
    fields = {"withoutMasterMs": 0, "isUnclean": False, "lostBytes": 0}
    rows = [
        {"atMs": 1, "masterEpoch": 1, "masterId": 1, "masterAddress": "h:1", "reason": "asked for", **fields},
        {"atMs": 2, "masterEpoch": 1, "masterId": None, "masterAddress": "", "reason": "silent", **fields},
        {"atMs": 3, "masterEpoch": 2, "masterId": 1, "masterAddress": "h:1", "reason": "back", **fields},
    ]
    text = json.dumps(
        {
            "format": 1, "cluster": "C", "name": "broker-a", "nextId": 2,
            "replicas": {"1": {"address": "h:1", "checkCode": "x"}},
            "masterId": 1, "masterEpoch": 2, "syncStateSet": [1], "syncStateSetEpoch": 2, "elections": rows,
        }
    )  # fmt: skip
    group = BrokerGroup.from_text(text)
    assert [(one.master_epoch, one.ended_ms, one.ended_because) for one in group.elections] == [
        (1, 2, "silent"),
        (2, None, ""),
    ]
    assert (group.lease_ms, group.replicas[1].was_heard) == (DEFAULT_TIMEOUT_MS, True)
    assert BrokerGroup.from_text(group.to_text()) == group
