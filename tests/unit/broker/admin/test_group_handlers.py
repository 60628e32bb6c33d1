from orbitmq.broker.admin.group_handlers import CONFIGS_PER_TURN
from orbitmq.handling.call import Saved
from orbitmq.protocol.bodies.group import (
    DeleteSubscriptionGroupListRequestBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.group import (
    DeleteSubscriptiongroup,
    DeleteSubscriptionGroupList,
    GetAllSubscriptiongroupConfig,
    GetSubscriptiongroupConfig,
    UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList,
    UpdateAndGetGroupForbidden,
)
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World


def test_a_group_is_made_listed_and_deleted() -> None:
    world = World()
    world.ask(UpdateAndCreateSubscriptiongroup(SubscriptionGroupConfig("G", retry_max_times=5)))
    assert world.last_wait is not None
    assert world.last_wait.on == (Saved("groups"),)
    assert world.ask(GetSubscriptiongroupConfig("G")).body.retry_max_times == 5
    listed = world.ask(GetAllSubscriptiongroupConfig())
    assert (listed.total_group_num, set(listed.body.subscription_group_table)) == (1, {"G"})
    world.ask(DeleteSubscriptiongroup("G"))
    assert world.groups.get("G") is None
    world.ask(DeleteSubscriptiongroup("G"))


def test_names_are_checked_before_anything_happens() -> None:
    world = World()
    bad = SubscriptionGroupConfig("G G")
    assert world.refusal(UpdateAndCreateSubscriptiongroup(bad)).code == ResponseCode.INVALID_PARAMETER
    both = SubscriptionGroupList([SubscriptionGroupConfig("G"), bad])
    assert world.refusal(UpdateAndCreateSubscriptiongroupList(both)).code == ResponseCode.INVALID_PARAMETER
    assert world.groups.get("G") is None


def test_several_groups_in_one_request() -> None:
    world = World()
    world.ask(
        UpdateAndCreateSubscriptiongroupList(
            SubscriptionGroupList([SubscriptionGroupConfig("G"), SubscriptionGroupConfig("H")])
        )
    )
    assert set(world.groups.by_name) == {"G", "H"}


def test_asking_for_an_unknown_group_makes_it_where_groups_may_be_made() -> None:
    assert World().ask(GetSubscriptiongroupConfig("G")).body.group_name == "G"
    refused = World(auto_create_subscription_group=False).refusal(GetSubscriptiongroupConfig("G"))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_offsets_of_a_deleted_group_go_only_when_asked() -> None:
    world = World()
    world.offsets.commit("G", "T", 0, 3, NOW)
    world.ask(DeleteSubscriptiongroup("G"))
    assert world.offsets.get("G", "T", 0) == 3
    world.ask(DeleteSubscriptiongroup("G", True))
    assert world.offsets.get("G", "T", 0) == -1


def test_a_list_of_groups_is_deleted_or_none_of_them() -> None:
    world = World()
    for group in ("G", "H"):
        world.ask(UpdateAndCreateSubscriptiongroup(SubscriptionGroupConfig(group)))
        world.offsets.commit(group, "T", 0, 3, NOW)

    def delete(clean_offset: bool, *groups: str) -> DeleteSubscriptionGroupList:
        return DeleteSubscriptionGroupList(DeleteSubscriptionGroupListRequestBody(clean_offset, list(groups)))

    for wrong in (delete(True), delete(True, "G", " ")):
        assert world.refusal(wrong).code == ResponseCode.INVALID_PARAMETER
    world.ask(delete(False, "G"))
    world.ask(delete(True, "H", "NeverThere"))
    assert world.groups.by_name == {}
    assert [world.offsets.get(group, "T", 0) for group in ("G", "H")] == [3, -1]


def test_offsets_of_lite_topics_go_with_their_group() -> None:
    world = World()
    bound = SubscriptionGroupConfig("G", attributes={"+lite.bind.topic": "P"})
    world.ask(UpdateAndCreateSubscriptiongroup(bound))
    world.offsets.commit("G", "%LMQ%$P$l", 0, 3, NOW)
    world.ask(DeleteSubscriptiongroup("G"))
    assert world.offsets.get("G", "%LMQ%$P$l", 0) == -1


def test_a_group_may_be_kept_from_reading() -> None:
    world = World()
    assert world.ask(UpdateAndGetGroupForbidden("G", "T")).body.readable is True
    assert world.ask(UpdateAndGetGroupForbidden("G", "T", False)).body.readable is False
    assert world.ask(UpdateAndGetGroupForbidden("G", "T")).body.readable is False
    assert world.ask(UpdateAndGetGroupForbidden("G", "T", True)).body.readable is True


def test_very_many_groups_are_made_over_several_turns() -> None:
    world, most = World(), 3 * CONFIGS_PER_TURN
    before = len(world.groups.by_name)
    listed = SubscriptionGroupList([SubscriptionGroupConfig(f"G{number}") for number in range(most)])
    turns, _ = turns_of(world.handle(UpdateAndCreateSubscriptiongroupList(listed)))
    assert turns == 6, "they are checked first, all of them"
    assert len(world.groups.by_name) == before + most
