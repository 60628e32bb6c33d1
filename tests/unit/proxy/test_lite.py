"""Rules of lite topics: groups, bodies, handles, deliveries, queues."""

from __future__ import annotations

import pytest

from orbitmq.options import Layer
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.handles.lite import LiteAnswer
from orbitmq.protocol.handles.pop import BadHandle, PopHandle
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.protocol.records.hashing import consistent_place
from orbitmq.protocol.requests.lite import LiteReply
from orbitmq.proxy.checks import check_lite_topic
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.lite.rules import check_kind, quota_of, subscription_body
from orbitmq.proxy.messages import received_message, sent_properties, type_of
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.receipts import read_handle
from orbitmq.proxy.settings import consumer_settings
from orbitmq.proxy.wire import messaging_pb2 as pb
from tests.unit.proxy.test_messages import record

LITE = SubscriptionGroupConfig("G", attributes={"lite.bind.topic": "P", "lite.sub.client.quota": "7"})
PLAIN = SubscriptionGroupConfig("G")
PROPERTIES = {
    "__LITE_TOPIC": "l",
    "INNER_MULTI_DISPATCH": "%LMQ%$P$l",
    "INNER_MULTI_QUEUE_OFFSET": "5",
    "UNIQ_KEY": "U1",
}
REPLY = LiteReply(pop_time=1000, invisible_time=60_000, revive_qid=999, order_count_info="0;0 qo0%6 2")


@pytest.mark.parametrize(
    ("name", "places"),
    [("l", (1, 4, 4)), ("lite-topic-1", (2, 2, 13)), ("session_42", (2, 5, 15)), ("b", (0, 5, 5))],
)
def test_a_lite_topic_has_the_queue_that_every_proxy_gives_it(name: str, places: tuple[int, ...]) -> None:
    assert tuple(consistent_place(name, count) for count in (4, 8, 16)) == places


@pytest.mark.parametrize("name", ["", " ", "a b", "a.b", "é", "a" * 65, "a\n"])
def test_names_have_letters_digits_and_few_signs(name: str) -> None:
    check_lite_topic("session-42_a", 64)
    with pytest.raises(ProxyRefused) as refused:
        check_lite_topic(name, 64)
    assert refused.value.code == pb.ILLEGAL_LITE_TOPIC


def test_groups_are_for_clients_of_their_kind_and_say_their_quota() -> None:
    assert (bound_topic(LITE), bound_topic(PLAIN), quota_of(LITE), quota_of(PLAIN)) == ("P", None, 7, 2000)
    huge = SubscriptionGroupConfig("G", attributes={"lite.sub.client.quota": str(2**40)})
    assert quota_of(huge) == 2**31 - 1
    for kind in (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
        check_kind(kind, "G", LITE)
        with pytest.raises(ProxyRefused, match="regular group"):
            check_kind(kind, "G", PLAIN)
        asked = pb.Settings(client_type=kind, subscription=pb.Subscription())
        options = PROXY_TABLE.load([Layer("the test", {"maxLiteTopicSize": "32"})])
        told = consumer_settings(asked, options, LITE).subscription
        assert (told.lite_subscription_quota, told.max_lite_topic_size) == (7, 32)
    check_kind(pb.PUSH_CONSUMER, "G", PLAIN)
    with pytest.raises(ProxyRefused, match="must use LITE mode"):
        check_kind(pb.PUSH_CONSUMER, "G", LITE)


def test_brokers_are_told_of_subscriptions_in_apaches_words() -> None:
    option = pb.OffsetOption(policy=pb.OffsetOption.MIN)
    assert subscription_body("PARTIAL_ADD", "c1", "G", "P", ["a", "b"], option).to_json() == (
        b'{"subscriptionSet":[{"action":"PARTIAL_ADD","clientId":"c1","group":"G","liteTopicSet":["a","b"],'
        b'"offsetOption":{"type":"POLICY","value":1},"topic":"P","version":0}]}'
    )
    assert subscription_body("COMPLETE_REMOVE", "c1", "G", "P").to_json() == (
        b'{"subscriptionSet":[{"action":"COMPLETE_REMOVE","clientId":"c1","group":"G","topic":"P","version":0}]}'
    )
    assert (
        b'"offsetOption":{"type":"TAIL_N","value":3}'
        in subscription_body("PARTIAL_ADD", "c1", "G", "P", ["a"], pb.OffsetOption(tail_n=3)).to_json()
    )


def test_handles_name_the_lite_topic_so_that_clients_need_not() -> None:
    answer = LiteAnswer.of(REPLY, "broker-a", 2)
    handle = answer.handle(record(PROPERTIES))
    assert (handle.queue_id, handle.queue_offset, handle.lite_topic, handle.is_order) == (0, 5, "l", True)
    assert read_handle(handle.to_text()) == handle
    assert PopHandle.from_text(handle.to_text().removesuffix(" l")).lite_topic == ""
    with pytest.raises(BadHandle):
        PopHandle.from_text(handle.to_text() + " m")
    for name, value in (
        ("__LITE_TOPIC", ""),
        ("INNER_MULTI_DISPATCH", "%LMQ%$P$l,%LMQ%x"),
        ("INNER_MULTI_QUEUE_OFFSET", "5,6"),
        ("INNER_MULTI_QUEUE_OFFSET", "x"),
    ):
        with pytest.raises(BadHandle):
            answer.handle(record({**PROPERTIES, name: value}))
    shown = received_message(record(PROPERTIES), "P", handle, 1, 60_000)
    assert (shown.system_properties.lite_topic, shown.system_properties.message_type) == ("l", pb.LITE)
    assert (shown.system_properties.queue_offset, dict(shown.user_properties)) == (5, {})


def test_deliveries_are_counted_where_the_broker_tells_as_many_as_there_are_records() -> None:
    answer = LiteAnswer.of(REPLY, "broker-a", 2)
    assert [answer.deliveries(place) for place in range(2)] == [1, 3]
    fewer = LiteAnswer.of(REPLY, "broker-a", 3)
    assert [fewer.deliveries(place) for place in range(3)] == [1, 1, 1]


def test_a_message_of_a_lite_topic_carries_its_name() -> None:
    message = pb.Message(topic=pb.Resource(name="P"), body=b"x")
    message.system_properties.message_id = "m"
    message.system_properties.lite_topic = "l"
    assert type_of(message) == "LITE"
    assert "__LITE_TOPIC\x01l\x02" in sent_properties(message, "P", "127.0.0.1:1", 0)
    message.system_properties.priority = 3
    assert type_of(message) == "PRIORITY"
