from orbitmq.handling.call import Saved
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.store import PutStatus
from tests.kit.world import NOW, World


def world() -> World:
    world = World()
    world.put("T")
    return world


def back(offset: int = 0, level: int = 0, most: int | None = None) -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(offset, "G", level, max_reconsume_times=most)


def test_a_message_waits_for_its_retry() -> None:
    broker = world()
    broker.ask(back())
    (unit,) = broker.store.queues["SCHEDULE_TOPIC_XXXX", 2]
    assert unit[2] == NOW + 10_000
    assert broker.topics.require("%RETRY%G").write_queue_nums == 1
    assert broker.last_wait is not None
    assert broker.last_wait.on == (Saved("topics"),)
    assert broker.stats.find("SNDBCK_PUT_NUMS", "T@G") is not None


def test_retry_queues_are_used_in_turn() -> None:
    broker = world()
    broker.groups.put(SubscriptionGroupConfig("G", retry_queue_nums=2), NOW)
    for _ in range(4):
        broker.ask(back(level=1))
    queues = [
        decode_record(broker.store.by_offset[unit[0]]).property_map()["REAL_QID"]
        for unit in broker.store.queues["SCHEDULE_TOPIC_XXXX", 0]
    ]
    assert sorted(queues) == ["0", "0", "1", "1"]


def test_a_group_that_gets_more_retry_queues_has_them_in_its_topic() -> None:
    broker = world()
    broker.ask(back(level=1))
    broker.groups.put(SubscriptionGroupConfig("G", retry_queue_nums=3), NOW)
    for _ in range(3):
        broker.ask(back(level=1))
    queues = {
        decode_record(broker.store.by_offset[unit[0]]).property_map()["REAL_QID"]
        for unit in broker.store.queues["SCHEDULE_TOPIC_XXXX", 0]
    }
    topic = broker.topics.require("%RETRY%G")
    assert (topic.read_queue_nums, topic.write_queue_nums, queues) == (3, 3, {"0", "1", "2"})


def test_no_retry_goes_to_a_queue_that_nobody_may_read() -> None:
    broker = world()
    broker.groups.put(SubscriptionGroupConfig("G", retry_queue_nums=1), NOW)
    broker.topics.put(TopicConfig("%RETRY%G", read_queue_nums=2, write_queue_nums=4), NOW)
    for _ in range(4):
        broker.ask(back(level=1))
    queues = {
        decode_record(broker.store.by_offset[unit[0]]).property_map()["REAL_QID"]
        for unit in broker.store.queues["SCHEDULE_TOPIC_XXXX", 0]
    }
    assert queues == {"0", "1"}


def test_a_message_delivered_often_enough_becomes_a_dead_letter() -> None:
    broker = world()
    broker.ask(back(most=0))
    assert broker.store.max_offset("%DLQ%G", 0) == 1
    assert broker.topics.require("%DLQ%G").perm == 6
    broker.ask(back(level=-1))
    assert broker.store.max_offset("%DLQ%G", 0) == 2


def test_old_clients_do_not_say_how_often() -> None:
    broker = world()
    broker.ask(back(most=0), broker.peer(version=120))
    assert broker.store.max_offset("%DLQ%G", 0) == 0


def test_groups_without_retry_queues_lose_the_message_on_purpose() -> None:
    broker = world()
    broker.groups.put(SubscriptionGroupConfig("G", retry_queue_nums=0), NOW)
    broker.ask(back())
    assert len(broker.store.appended) == 1


def test_what_is_refused() -> None:
    broker = world()
    refused = broker.refusal(back(offset=77))
    assert (refused.code, refused.remark) == (1, "look message by offset failed, 77")
    broker.store.refuse = PutStatus.SERVICE_NOT_AVAILABLE
    refused = broker.refusal(back())
    assert (refused.code, refused.remark) == (1, "SERVICE_NOT_AVAILABLE")
    broker.topics.require("%RETRY%G").perm = 4
    assert broker.refusal(back()).code == ResponseCode.NO_PERMISSION
    broker.settings.broker_permission = 4
    assert broker.refusal(back()).code == ResponseCode.NO_PERMISSION
    nobody = World(auto_create_subscription_group=False)
    assert nobody.refusal(back()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
