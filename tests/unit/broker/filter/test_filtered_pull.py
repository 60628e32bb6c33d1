"""SQL92 filters from the subscription to the pull: codes, statuses, offsets, and what wakes a held pull."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.filter.sql92 import SqlFilter
from orbitmq.handling.call import DataAt, Wait
from orbitmq.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.client import CheckClientConfig, Heartbeat
from orbitmq.protocol.requests.pull import PullMessage
from tests.kit.real_broker import NOW, RealBroker, resumed

SUSPEND, SUBSCRIPTION = 2, 4
TOPIC = "TopicTest"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., RealBroker]]:
    made: list[RealBroker] = []

    def make(**options: Any) -> RealBroker:
        options.setdefault("enablePropertyFilter", True)
        broker = RealBroker(tmp_path / str(len(made)), **options)
        broker.broker.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4), NOW)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


def send(broker: RealBroker, topic: str = TOPIC, now: int = NOW, **properties: str) -> None:
    text = encode_properties(properties).decode()
    broker.send(now=now, topic=topic, queue_id=0, properties=text, body=repr(properties).encode())


def beat(broker: RealBroker, text: str, version: int = 1, topic: str = TOPIC, now: int = NOW) -> None:
    row = SubscriptionData(topic, text, "SQL92", sub_version=version)
    data = ConsumerData("CG", ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, None, [row])
    broker.handle(Heartbeat(HeartbeatData(client_id="c@1", consumer_data_set=[data])), now)


def pull(offset: int = 0, flags: int = 0, text: str | None = None, **fields: Any) -> PullMessage:
    values: dict[str, Any] = {
        "consumer_group": "CG",
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": flags | (SUBSCRIPTION if text is not None else 0),
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 1,
        "subscription": text,
        "expression_type": "SQL92",
        "max_msg_bytes": 262_144,
    }
    return PullMessage(**{**values, **fields})


def offsets(reply: Any) -> list[int]:
    found, data = [], bytes(reply.body or b"")
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(decode_record(data[:size]).queue_offset)
        data = data[size:]
    return found


Make = Callable[..., RealBroker]


def check(text: str, kind: str = "SQL92") -> CheckClientConfig:
    return CheckClientConfig(CheckClientRequestBody("c", "CG", SubscriptionData(TOPIC, text, kind)))


def test_a_consumer_hears_at_its_start_what_is_wrong_with_its_expression(make: Make) -> None:
    broker = make()
    broker.handle(check("price > 10 AND color IN ('red', 'blue')"))
    broker.handle(check("A || B", "TAG"))
    answer = broker.refusal(check("price >"))
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert answer.remark == "the expression ends too early"
    answer = broker.refusal(check("x", "XPATH"))
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "no filter of type XPATH" in answer.remark


def test_without_enable_property_filter_expressions_are_refused(make: Make) -> None:
    broker = make(enablePropertyFilter=False)
    send(broker, price="11")
    beat(broker, "price > 10")
    for request in (check("price > 10"), pull(), pull(text="price > 10")):
        answer = broker.refusal(request)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "The broker does not support consumer to filter message by SQL92"


def test_a_pull_gets_what_the_expression_of_its_heartbeat_wants(make: Make) -> None:
    broker = make()
    beat(broker, "price > 10 AND TAGS = 'A'")
    for price in ("9", "11", "12", "x"):
        send(broker, price=price, TAGS="A")
    send(broker, price="13", TAGS="B")
    reply = broker.handle(pull())
    assert (reply.code, reply.remark, offsets(reply)) == (ResponseCode.SUCCESS, "FOUND", [1, 2])
    assert reply.next_begin_offset == 5


def test_a_pull_may_bring_its_expression_along(make: Make) -> None:
    broker = make()
    for number in range(6):
        send(broker, number=str(number))
    reply = broker.handle(pull(1, text="number BETWEEN 1 AND 3", max_msg_nums=2))
    assert offsets(reply) == [1, 2]
    assert reply.next_begin_offset == 3
    for text in ("number >", "", "number == 3"):
        answer = broker.refusal(pull(text=text))
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert answer.remark == "parse the consumer's subscription failed"
    assert broker.refusal(pull(text="x", expression_type="XPATH")).code == 23


def test_what_does_not_match_is_passed_over(make: Make) -> None:
    broker = make()
    beat(broker, "number = 7")
    for number in range(5):
        send(broker, number=str(number))
    reply = broker.handle(pull(2, SUSPEND))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert (reply.next_begin_offset, reply.min_offset, reply.max_offset) == (5, 0, 5)
    assert isinstance(broker.handle(pull(5, SUSPEND)), Wait)


def test_one_pull_looks_at_so_many_messages_only(make: Make) -> None:
    broker = make(maxFilterMessageSize=20 * 40)
    beat(broker, "number = 99")
    for number in range(100):
        send(broker, number=str(number))
    assert broker.handle(pull(0)).next_begin_offset == 40
    assert broker.handle(pull(40)).next_begin_offset == 80
    assert offsets(broker.handle(pull(80))) == [99]


def test_the_filter_has_to_be_there_and_as_new_as_the_subscription(make: Make) -> None:
    broker = make()
    send(broker, price="11")
    beat(broker, "price >")
    answer = broker.refusal(pull())
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert answer.remark == "The broker's consumer filter data is not exist!Your expression may be wrong!"
    beat(broker, "price > 10", 5)
    assert offsets(broker.handle(pull(sub_version=5))) == [0]
    known = broker.broker.filters.get(TOPIC, "CG")
    assert known is not None
    known.data.client_version = 4  # as a file of before may have it
    answer = broker.refusal(pull(sub_version=5))
    assert answer.code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert answer.remark == "the consumer's consumer filter data not latest"
    assert broker.refusal(pull(sub_version=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_a_held_pull_is_woken_for_what_matches_only(make: Make) -> None:
    broker = make()
    beat(broker, "price > 10")
    held = broker.handle(pull(0, SUSPEND))
    assert isinstance(held, Wait)
    (condition,) = held.on
    assert isinstance(condition, DataAt)
    accepts = condition.accepts
    assert accepts is not None
    send(broker, price="9")
    assert not accepts(0)
    send(broker, price="11")
    assert accepts(1)
    assert not accepts(2)
    assert offsets(resumed(held)) == [1]


def test_a_held_pull_whose_time_is_over_says_how_far_it_looked(make: Make) -> None:
    broker = make()
    beat(broker, "price > 10")
    held = broker.handle(pull(0, SUSPEND))
    send(broker, price="9")
    reply = resumed(held, timed_out=True)
    assert (reply.code, reply.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)


def test_retry_topics_are_filtered_by_an_option(make: Make) -> None:
    for enabled, expected in ((False, [0, 1, 2]), (True, [1, 2])):
        broker = make(filterSupportRetry=enabled)
        beat(broker, "price > 10")
        broker.broker.topics.put(TopicConfig(topic_name="%RETRY%CG"), NOW)
        send(broker, "%RETRY%CG", price="9", RETRY_TOPIC=TOPIC)
        send(broker, "%RETRY%CG", price="11", RETRY_TOPIC=TOPIC)
        send(broker, "%RETRY%CG", price="9", RETRY_TOPIC="Other")
        broker.broker.topics.note_saved()
        request = pull(topic="%RETRY%CG", text="*", expression_type="TAG")
        assert offsets(broker.handle(request)) == expected


def test_a_pull_passes_over_messages_by_their_bits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make(enableConsumeQueueExt=True, enableCalcFilterBitMap=True)
    send(broker, now=NOW, price="1")  # before the filter came: it is looked at
    beat(broker, "price > 10", now=NOW + 10)
    for price in ("9", "11", "8", "12"):
        send(broker, now=NOW + 20, price=price)
    known = broker.broker.filters.get(TOPIC, "CG")
    assert known is not None
    monkeypatch.setattr(type(known), "compiled", SqlFilter("everything", lambda properties: True))
    assert offsets(broker.handle(pull())) == [0, 2, 4]
    assert offsets(broker.handle(pull(text="price < 10"))) == [0, 1, 3]
