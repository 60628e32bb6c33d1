from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.pull import QueryMessage, ViewMessageById
from orbitmq.protocol.requests.topic import QueryConsumeQueue
from orbitmq.store import PendingMessage
from tests.kit.world import HOST, NOW, World


def world() -> World:
    world = World()
    world.topics.ensure("T", 1, NOW)
    for number, properties in enumerate(
        ("KEYS\x01a b\x02UNIQ_KEY\x01U1\x02", "KEYS\x01b\x02UNIQ_KEY\x01U2\x02TAGS\x01t\x02")
    ):
        world.store.append(
            PendingMessage("T", 0, 0, 0, NOW, HOST, HOST, 0, 0, b"m%d" % number, properties.encode()), NOW
        )
    return world


def bodies(broker: World, key: str, **options: object) -> list[bytes]:
    reply = broker.ask(QueryMessage("T", key, 32, 0, NOW * 2, **options))  # type: ignore[arg-type]
    data, found = bytes(reply.body), []
    while data:
        message = decode_record(data)
        found.append(message.body)
        data = data[message.size :]
    return found


def test_messages_by_key_tag_and_unique_id() -> None:
    broker = world()
    assert bodies(broker, "a") == [b"m0"]
    assert bodies(broker, "b") == [b"m0", b"m1"]
    assert bodies(broker, "t", index_type="T") == [b"m1"]
    assert bodies(broker, "U2", is_unique_key=True) == [b"m1"]


def test_another_key_with_the_same_hash_is_not_found() -> None:
    refused = world().refusal(QueryMessage("T", "nosuch", 32, 0, NOW * 2))
    assert refused.code == ResponseCode.QUERY_NOT_FOUND
    assert refused.remark == "can not find message, maybe time range not correct"
    assert refused.extra == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


def test_a_message_by_its_place_in_the_log() -> None:
    broker = world()
    assert decode_record(bytes(broker.ask(ViewMessageById(0)).body)).body == b"m0"
    refused = broker.refusal(ViewMessageById(7))
    assert (refused.code, refused.remark) == (1, "can not find message by the offset, 7")


def test_units_of_a_queue_and_what_a_group_subscribes() -> None:
    broker = world()
    body = broker.ask(QueryConsumeQueue("T", 0, 0, 5)).body
    assert (body.min_queue_index, body.max_queue_index, len(body.queue_data)) == (0, 2, 2)
    assert body.queue_data[1].tags_code == java_hash("t")
    subscription = SubscriptionData("T", "t", code_set={java_hash("t")})
    broker.clients.register_consumer(
        ConsumerData(
            "G",
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            subscription_data_set=[subscription],
        ),
        "c1",
        broker.peer(),
        NOW,
        notifies=False,
        with_subscriptions=True,
    )
    body = broker.ask(QueryConsumeQueue("T", 0, 0, 5, "G")).body
    assert not any(unit.eval for unit in body.queue_data), "told of units with an extension alone"
    assert body.filter_data == "null"
    assert broker.refusal(QueryConsumeQueue("U", 0, 0, 5)).code == ResponseCode.SYSTEM_ERROR


def test_how_many_messages_of_one_unique_id_are_given_is_an_option() -> None:
    for most in (2, 3):
        broker = World(default_query_max_num=most)
        for number in range(5):
            pending = PendingMessage(
                "T", 0, 0, 0, NOW, HOST, HOST, 0, 0, b"%d" % number, b"UNIQ_KEY\x01SAME\x02"
            )
            broker.store.append(pending, NOW)
        assert len(bodies(broker, "SAME", is_unique_key=True)) == most
