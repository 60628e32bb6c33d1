"""Resets of a group's offsets, and the offsets that its members have."""

from orbitmq.handling.call import Answer, Outcome, Saved, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.offset import GetConsumerStatusBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, LANGUAGE_CPP, Command
from orbitmq.protocol.requests.offset import (
    GetConsumerStatusFromClient,
    InvokeBrokerToGetConsumerStatus,
    InvokeBrokerToResetOffset,
    ResetConsumerClientOffset,
    UpdateConsumerOffset,
)
from tests.kit.world import NOW, World


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
