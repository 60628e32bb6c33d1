from orbitmq.broker.client.handlers import GROUPS_PER_TURN
from orbitmq.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.client import (
    CheckClientConfig,
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetProducerConnectionList,
    Heartbeat,
    NotifyConsumerIdsChanged,
    QuerySubscriptionByConsumer,
    UnregisterClient,
)
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World


def beat(*topics: str, fingerprint: int = 0, without_sub: bool = False, client_id: str = "c1") -> Heartbeat:
    consumer = ConsumerData(
        "G",
        ConsumeType.CONSUME_PASSIVELY,
        MessageModel.CLUSTERING,
        subscription_data_set=[SubscriptionData(topic, "*", sub_version=1) for topic in topics],
    )
    return Heartbeat(HeartbeatData(client_id, [ProducerData("P")], [consumer], fingerprint, without_sub))


def test_a_heartbeat_makes_the_group_its_retry_topic_and_its_members() -> None:
    world = World()
    reply = world.ask(beat("T"))
    assert reply.is_support_heart_beat_v2
    assert reply.is_sub_change
    assert world.groups.get("G") is not None
    retry = world.topics.require("%RETRY%G")
    assert (retry.write_queue_nums, retry.perm, retry.order) == (1, 6, False)
    world.clients.notify(NOW)
    assert world.outbox.drain() == [(1, NotifyConsumerIdsChanged("G"))]
    assert world.ask(GetConsumerListByGroup("G")).body.consumer_id_list == ["c1"]
    assert set(world.ask(GetAllProducerInfo()).body.data) == {"P"}


def test_the_heartbeat_of_very_many_groups_is_taken_in_over_several_turns() -> None:
    world, most = World(), 4 * GROUPS_PER_TURN
    consumers = [ConsumerData(f"G{number}") for number in range(most)]
    producers = [ProducerData(f"P{number}") for number in range(most)]
    result = world.handle(Heartbeat(HeartbeatData("c1", producers, consumers)))
    assert len(world.clients.consumers) == GROUPS_PER_TURN, "others come in between"
    turns, reply = turns_of(result)
    assert turns == 8
    assert reply.is_sub_change
    assert len(world.clients.consumers) == len(world.clients.producers) == most


def test_a_group_that_may_not_be_made_is_passed_over_silently() -> None:
    world = World(auto_create_subscription_group=False)
    world.ask(beat("T"))
    assert world.clients.consumers == {}
    assert world.topics.get("%RETRY%G") is None


def test_the_retry_topic_of_ordered_consumers_is_ordered() -> None:
    world = World()
    world.topics.ensure("T", 4, now=1, order=True)
    world.ask(beat("T"))
    assert world.topics.require("%RETRY%G").order


def test_heartbeats_of_the_second_form_say_whether_anything_changed() -> None:
    world = World()
    assert world.ask(beat("T", fingerprint=7)).is_sub_change is False
    assert world.ask(beat("T", fingerprint=7, without_sub=True)).is_sub_change is False
    assert world.clients.subscription("G", "T") is not None
    assert world.ask(beat("T", "U", fingerprint=8)).is_sub_change is True
    assert world.ask(beat("T", "U")).is_sub_change is True
    assert world.ask(beat("T", fingerprint=8)).is_sub_change is True


def test_a_farewell_takes_a_client_off_and_tells_the_others() -> None:
    world = World()
    world.ask(beat("T"), world.peer(1))
    world.ask(beat("T", client_id="c2"), world.peer(2))
    world.clients.notify(NOW)
    world.outbox.drain()
    world.ask(UnregisterClient("c1", consumer_group="G"), world.peer(1))
    world.clients.notify(NOW)
    assert [connection for connection, _ in world.outbox.drain()] == [2]
    assert world.ask(GetConsumerListByGroup("G")).body.consumer_id_list == ["c2"]
    world.ask(UnregisterClient("c1", producer_group="P"), world.peer(1))
    assert len(world.ask(GetProducerConnectionList("P")).body.connection_set) == 1


def test_questions_about_groups_that_are_not_here() -> None:
    world = World()
    refused = world.refusal(GetConsumerListByGroup("G"))
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, G")
    refused = world.refusal(GetConsumerConnectionList("G"))
    assert (refused.code, refused.remark) == (
        ResponseCode.CONSUMER_NOT_ONLINE,
        "the consumer group[G] not online",
    )
    assert world.refusal(GetProducerConnectionList("P")).code == ResponseCode.SYSTEM_ERROR


def test_connections_show_who_is_here_and_what_it_consumes() -> None:
    world = World()
    world.ask(beat("T"))
    body = world.ask(GetConsumerConnectionList("G")).body
    (connection,) = body.connection_set
    assert (connection.client_id, connection.client_addr, connection.version) == (
        "c1",
        "127.0.0.1:40001",
        493,
    )
    assert connection.language.name == "JAVA"
    assert body.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert body.subscription_table["T"].sub_string == "*"
    subscription = world.ask(QuerySubscriptionByConsumer("G", "T")).body
    assert subscription.subscription_data.topic == "T"
    assert world.ask(QuerySubscriptionByConsumer("G", "U")).body.subscription_data is None


def test_an_expression_that_cannot_be_filtered_by_is_refused_at_the_start() -> None:
    world = World(enable_property_filter=False)
    world.ask(CheckClientConfig(CheckClientRequestBody("c", "G", SubscriptionData("T", "A || B"))))
    sql = SubscriptionData("T", "a > 5", expression_type="SQL92")
    assert world.refusal(CheckClientConfig(CheckClientRequestBody("c", "G", sql))).code == 1
