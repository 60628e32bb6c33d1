import pytest

from orbitmq.handling.call import Answer, Outcome, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.requests.client import ConsumeMessageDirectly, GetConsumerRunningInfo
from tests.kit.waiting import met
from tests.kit.world import HOST, NOW, World


def join(world: World, version: int = 493) -> None:
    world.clients.register_consumer(
        ConsumerData("G", ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING),
        "c1",
        world.peer(7, version),
        NOW,
        notifies=False,
        with_subscriptions=True,
    )


def test_the_client_s_answer_is_passed_on_as_it_is() -> None:
    world = World()
    join(world)
    wait = world.handle(GetConsumerRunningInfo("G", "c1", True))
    assert isinstance(wait, Wait)
    (question,) = wait.on
    assert isinstance(question, Answer)
    assert question.connection_id == 7
    assert question.request == GetConsumerRunningInfo("G", "c1", True)
    answer = Command(0, 1, FLAG_RESPONSE, {"a": "b"}, b"{}", "fine")
    reply = wait.then(Outcome(timed_out=False, answers={question: answer}), NOW)
    command = reply.to_command(5)  # type: ignore[union-attr]
    assert (command.code, command.remark, command.ext, command.body) == (0, "fine", {"a": "b"}, b"{}")


def test_a_client_that_says_nothing_or_goes_away() -> None:
    world = World()
    join(world)
    wait = world.handle(GetConsumerRunningInfo("G", "c1"))
    assert isinstance(wait, Wait)
    with pytest.raises(Refused) as refused:
        wait.then(Outcome(timed_out=True), NOW)
    assert refused.value.code == ResponseCode.CONSUME_MSG_TIMEOUT
    with pytest.raises(Refused) as refused:
        wait.then(Outcome(timed_out=False), NOW)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_clients_that_cannot_be_asked() -> None:
    world = World()
    assert world.refusal(GetConsumerRunningInfo("G", "c1")).code == ResponseCode.SYSTEM_ERROR
    join(world, version=61)
    assert "too low" in world.refusal(GetConsumerRunningInfo("G", "c1")).remark


def test_a_message_is_handed_to_the_client_with_its_record() -> None:
    world = World()
    join(world)
    world.put("T")
    wait = world.handle(ConsumeMessageDirectly("G", "c1", offset_message_id(HOST, 0), topic="T"))
    assert isinstance(wait, Wait)
    wait = wait.then(met(wait), NOW)  # the record was read
    assert isinstance(wait, Wait)
    (question,) = wait.on
    assert isinstance(question, Answer)
    asked = question.request
    assert isinstance(asked, ConsumeMessageDirectly)
    assert (asked.broker_name, asked.topic_sys_flag, asked.group_sys_flag) == ("broker-a", 0, 0)
    assert asked.body == world.store.by_offset[0]


def test_a_message_that_is_not_there() -> None:
    world = World()
    join(world)
    for text in (offset_message_id(HOST, 99), "no id"):
        assert world.refusal(ConsumeMessageDirectly("G", "c1", text)).code == ResponseCode.SYSTEM_ERROR
