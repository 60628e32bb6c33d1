import pytest

from orbitmq.handling.call import Answer, Outcome, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.requests.send import PushReplyMessageToClient, SendReply, SendReplyMessageV2
from tests.kit.world import NOW, World

TOPIC = "DefaultCluster_REPLY_TOPIC"


def world(**settings: object) -> World:
    world = World(**settings)
    world.topics.ensure(TOPIC, 1, NOW)
    world.clients.register_producer("P", "asker", world.peer(7), NOW)
    return world


def reply(properties: str = "REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01c\x02") -> SendReplyMessageV2:
    return SendReplyMessageV2("RP", TOPIC, "TBW102", 4, 0, 0, NOW, 0, properties, body=b"pong")


def held(broker: World) -> tuple[Wait, Answer]:
    wait = broker.handle(reply())
    assert isinstance(wait, Wait)
    (push,) = wait.on
    assert isinstance(push, Answer)
    return wait, push


def test_a_reply_is_pushed_to_the_producer_that_asked_and_stored() -> None:
    broker = world()
    wait, push = held(broker)
    assert push.connection_id == 7
    pushed = push.request
    assert isinstance(pushed, PushReplyMessageToClient)
    assert pushed.body == b"pong"
    properties = decode_properties(pushed.properties or "")
    assert properties["CORRELATION_ID"] == "c"
    assert properties["PUSH_REPLY_TIME"] == str(NOW)
    answer = wait.then(Outcome(False, {push: Command(0, 1, FLAG_RESPONSE)}), NOW + 5)
    assert isinstance(answer, SendReply)
    assert broker.store.max_offset(TOPIC, 0) == 1
    assert answer.msg_id == "7F00000100002A9F0000000000000000"


def test_a_producer_that_does_not_take_it() -> None:
    broker = world(store_reply_message_enable=False)
    wait, push = held(broker)
    for answers in ({}, {push: Command(1, 1, FLAG_RESPONSE)}):
        with pytest.raises(Refused) as refused:
            wait.then(Outcome(False, answers), NOW)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert broker.store.appended == []


def test_replies_to_nobody() -> None:
    broker = world()
    assert "is null" in broker.refusal(reply("A\x01b\x02")).remark
    assert "channel of <else> not found" in broker.refusal(reply("REPLY_TO_CLIENT\x01else\x02")).remark
    missing = World()
    assert missing.refusal(reply()).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_reply_has_nothing_that_only_the_broker_sets_and_is_none_of_the_copies() -> None:
    broker = world()
    own = "REPLY_TO_CLIENT\x01asker\x02"
    forged = "POP_CK\x01x\x02INNER_MULTI_DISPATCH\x01%LMQ%q\x02INNER_MULTI_QUEUE_OFFSET\x01999\x02"
    wait = broker.handle(reply(own + forged))
    assert isinstance(wait, Wait)
    (push,) = wait.on
    assert isinstance(push, Answer)
    wait.then(Outcome(False, {push: Command(0, 1, FLAG_RESPONSE)}), NOW)
    (stored,) = broker.store.appended
    assert set(decode_properties(stored.properties)) == {
        *("REPLY_TO_CLIENT", "MSG_REGION", "TRACE_ON", "PUSH_REPLY_TIME")
    }
    for topic in ("%RETRY%g", "%DLQ%g"):  # there RETRY_TOPIC counts, with the right to say so
        broker.topics.ensure(topic, 1, NOW)
        request = reply(own + "RETRY_TOPIC\x01salaries\x02")
        request.topic = topic
        assert broker.refusal(request).code == ResponseCode.NO_PERMISSION
