"""Options of the service have their effects, on a service as it runs."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from orbitmq import sync
from orbitmq.client import Message, TopicNotFound
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.delay.test_faults import read_all
from tests.kit.running_delay import RunningDelay, until


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        yield broker


def test_options_of_topics_targets_and_pages_have_their_effects(broker, tmp_path):
    for topic in ("inner", "slow"):
        broker.create_topic(topic, queues=1)
    health = free_ports()
    options = {
        "delayTopic": "orders_of_mine",
        "delayDeadTopic": "letters_of_mine",
        "delayQueues": "3",
        "delaySources": "own/inner",
        "delayFormat": "ddmq",
        "delayRates": "own/slow=2",
        "delayMaxTargets": "1",
        "healthPort": str(health),
        "healthHost": "127.0.0.1",
    }
    with RunningDelay(tmp_path / "store", f"own=rocketmq://{broker.namesrv}", **options) as delay:
        assert (tmp_path / "store" / "db").is_dir()
        assert httpx.get(f"http://127.0.0.1:{health}/health/ready").status_code == 200
        # One target has something pending to the end, so there is room for no other.
        assert delay.client.send_after("slow", b"much later", "1h").outcome == "scheduled"
        began = time.time() * 1000
        with sync.Producer("p", broker.namesrv) as producer:
            assert len(producer.queues("orders_of_mine")) == 3
            assert len(until(lambda: queues_of(producer, "letters_of_mine"))) == 3
            order = {"action": 1, "topic": "slow", "body": "ddmq", "tags": "", "properties": {}}
            due = int(time.time())
            order["uniqDelayMsgId"] = f"{due}-2-{due + 100}-0-0-0-0-uuid"
            producer.send(Message("inner", json.dumps(order).encode()))
            for n in range(6):
                control = {"delay.topic": "slow", "delay.after": "0"}
                producer.send(Message("orders_of_mine", b"%d" % n, properties=control))
            control = {"delay.topic": "another", "delay.after": "1h"}
            producer.send(Message("orders_of_mine", b"no room", properties=control))
        came = read_all(broker, "slow", 7)
        # Two at once, then two in each second.
        assert max(one.store_timestamp_ms for one in came) - began >= 2400
        assert len(delay.client.calendar()) <= 2
        with sync.PullConsumer("reader", broker.namesrv) as consumer:
            queues = consumer.queues("letters_of_mine")
            letter = until(lambda: [one for queue in queues for one in consumer.pull(queue, 0)])[0]
    assert "1 targets have pending messages" in letter.properties["delay.reason"]


def queues_of(client, topic):
    """The queues of a topic; none before it is made."""
    try:
        return client.queues(topic)
    except TopicNotFound:
        return []


def test_a_service_without_pages_makes_no_topics_if_it_shall_not(broker, tmp_path):
    broker.create_topic("made_before", queues=1)
    options = {"delayTopic": "made_before", "delayDeadTopic": "not_made", "delayMakeTopics": "false"}
    with RunningDelay(tmp_path, f"main=rocketmq://{broker.namesrv}", delayHttp="", **options) as delay:
        assert delay.server.address == "none"
    with sync.Producer("p", broker.namesrv) as producer, pytest.raises(Exception, match="not_made"):
        producer.queues("not_made")
