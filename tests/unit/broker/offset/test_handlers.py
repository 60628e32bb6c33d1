import pytest

from orbitmq.broker.offset.handlers import PAIRS_PER_STEP
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.offset import (
    CloneGroupOffset,
    GetAllConsumerOffset,
    GetAllDelayOffset,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    QueryCorrectionOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World


def test_an_offset_is_stored_and_found(world: World) -> None:
    world.ask(UpdateConsumerOffset("G", "T", 0, 7))
    assert world.ask(QueryConsumerOffset("G", "T", 0)).offset == 7


def test_a_new_group_starts_at_0_while_the_first_message_is_in_memory(world: World) -> None:
    assert world.ask(QueryConsumerOffset("G", "T", 0)).offset == 0
    world.put("T", 0, 3)
    assert world.ask(QueryConsumerOffset("G", "T", 0)).offset == 0


def test_nothing_is_found_where_the_queue_is_old_or_zero_is_not_wanted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = world.refusal(QueryConsumerOffset("G", "T", 0, False))
    assert refused.code == ResponseCode.QUERY_NOT_FOUND
    assert refused.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    world.put("T", 0)
    monkeypatch.setattr(world.store, "is_in_memory", lambda *_: False)
    assert world.refusal(QueryConsumerOffset("G", "T", 0)).code == ResponseCode.QUERY_NOT_FOUND


def test_offsets_of_unknown_groups_and_topics_are_refused(world: World) -> None:
    refused = world.refusal(UpdateConsumerOffset("H", "T", 0, 7))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert world.refusal(UpdateConsumerOffset("G", "U", 0, 7)).code == ResponseCode.TOPIC_NOT_EXIST


def test_the_range_of_a_queue_and_its_times(world: World) -> None:
    assert world.ask(GetMinOffset("T", 0)).offset == 0
    assert world.ask(GetMaxOffset("none", 5)).offset == 0
    assert world.ask(GetEarliestMsgStoretime("T", 0)).timestamp == -1
    world.put("T", 0, 2, NOW)
    world.put("T", 0, 2, NOW + 1000)
    assert world.ask(GetMaxOffset("T", 0)).offset == 4
    assert world.ask(GetEarliestMsgStoretime("T", 0)).timestamp == NOW
    assert world.ask(SearchOffsetByTimestamp("T", 0, NOW + 500)).offset == 2
    assert world.ask(SearchOffsetByTimestamp("T", 0, NOW + 5000)).offset == 4


def test_cloning_offsets(world: World) -> None:
    world.ask(UpdateConsumerOffset("G", "T", 0, 4))
    world.ask(CloneGroupOffset("G", "H", "T"))
    assert world.offsets.get("H", "T", 0) == 4
    world.ask(CloneGroupOffset("G", "I"))
    assert world.offsets.get("I", "T", 0) == -1


def test_very_many_offsets_are_copied_over_several_turns_and_written_out_beside_the_loop(
    world: World,
) -> None:
    for number in range(2 * PAIRS_PER_STEP + 1):
        world.offsets.store(f"G{number // 3}\u00fc", f"T{number % 3}", number % 8, number, NOW)
    turns, reply = turns_of(world.handle(GetAllConsumerOffset()))
    assert turns == 2
    assert reply.body == world.offsets.to_body().to_json()


def test_tables_for_slaves(world: World) -> None:
    world.ask(UpdateConsumerOffset("G", "T", 0, 4))
    assert world.ask(GetAllConsumerOffset()).body.offset_table == {"T@G": {0: 4}}
    assert b'"offsetTable":{}' in bytes(world.ask(GetAllDelayOffset()).body)


def test_correction_offsets(world: World) -> None:
    world.put("T", 0, 9)
    for group, offset in (("G", 6), ("H", 4), ("I", 1)):
        world.groups.find(group, NOW)
        world.ask(UpdateConsumerOffset(group, "T", 0, offset))
    reply = world.ask(QueryCorrectionOffset("G", "T", "I"))
    assert reply.body.correction_offsets == {0: 4}
    assert world.offsets.get("I", "T", 0) == -1
