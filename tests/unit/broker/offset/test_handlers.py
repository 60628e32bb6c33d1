import pytest

from orbitmq.broker.offset.handlers import PAIRS_PER_STEP
from orbitmq.handling.call import Answer, Outcome, Saved, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.offset import GetConsumerStatusBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, LANGUAGE_CPP, Command
from orbitmq.protocol.requests.offset import (
    CloneGroupOffset,
    GetAllConsumerOffset,
    GetAllDelayOffset,
    GetConsumerStatusFromClient,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    InvokeBrokerToGetConsumerStatus,
    InvokeBrokerToResetOffset,
    QueryConsumerOffset,
    QueryCorrectionOffset,
    ResetConsumerClientOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World


@pytest.fixture
def world() -> World:
    world = World()
    world.topics.ensure("T", 2, NOW)
    world.groups.find("G", NOW)
    world.dirty_tables.drain_all()
    return world


def join(world: World, connection_id: int = 1, version: int = 493) -> None:
    world.clients.register_consumer(
        ConsumerData(
            "G",
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            subscription_data_set=[SubscriptionData("T", "*")],
        ),
        f"c{connection_id}",
        world.peer(connection_id, version),
        NOW,
        notifies=False,
        with_subscriptions=True,
    )


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


def test_a_reset_is_saved_and_told_to_the_next_pull(world: World) -> None:
    world.put("T", 0, 5, NOW)
    world.put("T", 0, 5, NOW + 1000)
    world.ask(UpdateConsumerOffset("G", "T", 0, 10))
    reply = world.ask(InvokeBrokerToResetOffset("G", "T", NOW + 500, True))
    assert reply.body.offset_table == {
        MessageQueue("T", "broker-a", 0): 5,
        MessageQueue("T", "broker-a", 1): 0,
    }
    assert world.last_wait is not None
    assert world.last_wait.on == (Saved("offsets"),)
    assert world.offsets.pop_reset("G", "T", 0) == 5


def test_a_reset_of_one_queue_to_an_offset_or_the_end(world: World) -> None:
    world.put("T", 0, 5)
    world.ask(InvokeBrokerToResetOffset("G", "T", -1, True, 0, 3))
    assert world.offsets.get("G", "T", 0) == 3
    assert world.refusal(InvokeBrokerToResetOffset("G", "T", -1, True, 0, 7)).code == 1
    world.ask(InvokeBrokerToResetOffset("G", "T", -1, True))
    assert world.offsets.get("G", "T", 0) == 5


def test_what_cannot_be_reset(world: World) -> None:
    assert world.refusal(InvokeBrokerToResetOffset("G", "U", -1, True)).code == ResponseCode.TOPIC_NOT_EXIST
    refused = world.refusal(InvokeBrokerToResetOffset("H", "T", -1, True))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_by_an_option_the_clients_reset_themselves(world: World) -> None:
    world.settings.use_server_side_reset_offset = False
    reset = InvokeBrokerToResetOffset("G", "T", NOW, False)
    assert world.refusal(reset).code == ResponseCode.SYSTEM_ERROR, "a queue has no offset"
    for queue_id in (0, 1):
        world.put("T", queue_id, 3, NOW - 10)
        world.ask(UpdateConsumerOffset("G", "T", queue_id, queue_id))
    assert world.refusal(reset).code == ResponseCode.CONSUMER_NOT_ONLINE
    join(world)
    world.ask(reset)
    ((connection_id, push),) = world.outbox.drain()
    assert connection_id == 1
    assert isinstance(push, ResetConsumerClientOffset)
    assert isinstance(push.body, bytes)
    assert push.body.startswith(b'{"offsetTable":{{'), "a smaller offset is kept without force"
    assert world.offsets.get("G", "T", 1) == 1
    world.ask(reset, world.peer(2, language=LANGUAGE_CPP))
    ((_, push),) = world.outbox.drain()
    assert isinstance(push, ResetConsumerClientOffset)
    assert isinstance(push.body, bytes)
    assert push.body.startswith(b'{"offsetTable":[{')


def test_members_are_asked_for_their_offsets_and_silent_ones_left_out(world: World) -> None:
    ask = InvokeBrokerToGetConsumerStatus("T", "G")
    assert world.refusal(ask).code == ResponseCode.SYSTEM_ERROR
    join(world, 1)
    join(world, 2)
    wait = world.handle(ask)
    assert isinstance(wait, Wait)
    first, second = wait.on
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert isinstance(first.request, GetConsumerStatusFromClient)
    queue = MessageQueue("T", "broker-a", 0)
    answer = Command(0, 1, FLAG_RESPONSE, body=GetConsumerStatusBody({queue: 4}).to_json())
    reply = wait.then(Outcome(timed_out=True, answers={first: answer}), NOW)
    assert reply.body.consumer_table == {"c1": {queue: 4}}  # type: ignore[union-attr]


def test_members_too_old_to_be_asked(world: World) -> None:
    join(world, version=10)
    assert world.refusal(InvokeBrokerToGetConsumerStatus("T", "G")).code == ResponseCode.SYSTEM_ERROR


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
