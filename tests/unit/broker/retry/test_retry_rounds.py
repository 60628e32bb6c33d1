"""A message that is never handled: sixteen rounds, each later than the one before, and then a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.real_broker import NOW, PEER, RealBroker, message, resumed

WAITS_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
RETRY, DEAD = "%RETRY%G", "%DLQ%G"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    broker = RealBroker(tmp_path)
    yield broker
    broker.close()


def give_back(broker: RealBroker, record: StoredMessage, now: int, level: int = 0, most: int = -1) -> None:
    """A consumer's call when it could not handle a message."""
    limit = 16 if most < 0 else most
    request = ConsumerSendMsgBack(record.physical_offset, "G", level, max_reconsume_times=limit)
    result = broker.handle(request, now)
    if hasattr(result, "then"):
        resumed(result, now=now)


def deliver(broker: RealBroker, now: int) -> None:
    while broker.broker.delay.deliver_due(now):
        pass


def handed_out(broker: RealBroker, topic: str = RETRY) -> int:
    return broker.store.max_offset(topic, 0)


def sent(broker: RealBroker) -> StoredMessage:
    broker.send(properties="UNIQ_KEY\x01AB\x02KEYS\x01k\x02")
    return broker.stored("TopicTest", 1)


def test_all_rounds(broker: RealBroker) -> None:
    first = record = sent(broker)
    now = NOW
    for done, wait_s in enumerate(WAITS_S):
        give_back(broker, record, now)
        deliver(broker, now + wait_s * 1000 - 1)
        assert handed_out(broker) == done, f"round {done + 1} came too early"
        now += wait_s * 1000
        deliver(broker, now)
        assert handed_out(broker) == done + 1, f"round {done + 1} did not come"
        record = broker.stored(RETRY, 0, done)
        assert record.reconsume_times == done + 1
        assert (record.body, record.flag, record.born_timestamp) == (
            first.body,
            first.flag,
            first.born_timestamp,
        )
        properties = record.property_map()
        assert properties["RETRY_TOPIC"] == "TopicTest"
        assert properties["ORIGIN_MESSAGE_ID"] == first.offset_id
        assert (properties["UNIQ_KEY"], properties["KEYS"]) == ("AB", "k")
        assert broker.broker.topics.get(DEAD) is None, "made when first needed"
    give_back(broker, record, now)
    assert handed_out(broker) == 16
    dead = broker.stored(DEAD, 0)
    assert dead.reconsume_times == 17
    assert dead.property_map()["RETRY_TOPIC"] == "TopicTest"
    assert dead.property_map()["ORIGIN_MESSAGE_ID"] == first.offset_id
    topic = broker.broker.topics.require(DEAD)
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


def test_dead_letters_are_counted_by_topics_that_there_are_whatever_a_consumer_says(
    broker: RealBroker,
) -> None:
    record = sent(broker)
    for number in range(2):
        request = ConsumerSendMsgBack(record.physical_offset, "G", -1, origin_topic=f"made up {number}")
        resumed(broker.handle(request))
    own = {**copy(1, 0), "properties": "RETRY_TOPIC\x01made up\x02"}
    resumed(broker.send_together([message(**own)])[0])
    assert broker.broker.stats.dead == {("TopicTest", "G"): 2, (RETRY, "G"): 1}


def test_given_up_at_once(broker: RealBroker) -> None:
    give_back(broker, sent(broker), NOW, level=-1)
    assert broker.stored(DEAD, 0).reconsume_times == 1
    assert handed_out(broker) == 0


def test_the_groups_own_maximum_counts_where_the_client_says_none(broker: RealBroker) -> None:
    group = broker.broker.groups.find("G", NOW)
    assert group is not None
    group.retry_max_times = 0
    old = type(PEER)(1, PEER.host, PEER.address, 120)
    record = sent(broker)
    request = ConsumerSendMsgBack(record.physical_offset, "G", 0, max_reconsume_times=5)
    resumed(broker.handle(request, NOW, old))
    assert handed_out(broker, DEAD) == 1


def test_a_level_above_the_last_one_is_the_last_one(broker: RealBroker) -> None:
    give_back(broker, sent(broker), NOW, level=99)
    deliver(broker, NOW + 7_200_000 - 1)
    assert handed_out(broker) == 0
    deliver(broker, NOW + 7_200_000)
    assert handed_out(broker) == 1


def copy(times: int, most: int) -> dict[str, object]:
    """A copy that a client sends to the retry topic itself, where sending the message back failed."""
    properties = {
        "RETRY_TOPIC": "TopicTest",
        "ORIGIN_MESSAGE_ID": "FIRST",
        "UNIQ_KEY": "AB",
        "RECONSUME_TIME": str(times),
        "MAX_RECONSUME_TIMES": str(most),
        "DELAY": str(3 + times - 1),
    }
    return {
        "topic": RETRY,
        "queue_id": 0,
        "reconsume_times": times,
        "max_reconsume_times": most,
        "properties": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
    }


def test_the_clients_own_copy_waits_as_long_and_dies_in_time(broker: RealBroker) -> None:
    broker.broker.groups.find("G", NOW)
    result = broker.send_together([message(**copy(1, 2))])[0]
    resumed(result)
    deliver(broker, NOW + 9_999)
    assert handed_out(broker) == 0
    deliver(broker, NOW + 10_000)
    retried = broker.stored(RETRY, 0)
    assert (retried.reconsume_times, retried.property_map()["ORIGIN_MESSAGE_ID"]) == (1, "FIRST")
    resumed(broker.send_together([message(**copy(3, 2))])[0])
    dead = broker.stored(DEAD, 0)
    assert dead.property_map()["RETRY_TOPIC"] == "TopicTest"


def test_a_copy_of_an_ordered_consumer_is_a_dead_letter_at_once(broker: RealBroker) -> None:
    broker.broker.groups.find("G", NOW)
    broker.broker.locks.lock("G", "c1", [("TopicTest", "broker-a", 1)], NOW)
    resumed(broker.send_together([message(**copy(1, 2))])[0])
    assert handed_out(broker, DEAD) == 1
