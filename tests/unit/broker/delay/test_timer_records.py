from __future__ import annotations

from dataclasses import replace

import pytest

from orbitmq.broker.copied_properties import MAX_COPIED_PROPERTIES_BYTES
from orbitmq.broker.delay.timer_records import recall_handle, recall_key, waited
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties
from tests.kit.client_messages import stored

NOW = 1_700_000_000_000


def waiting(**properties: str) -> StoredMessage:
    texts = {"REAL_TOPIC": "orders", "REAL_QID": "3", "colour": "blue", **properties}
    return stored(topic="rmq_sys_wheel_timer", **{name: text for name, text in texts.items() if text})


def test_a_due_message_is_stored_in_its_own_queue_with_the_times_of_its_wait() -> None:
    message = waited(waiting(), NOW - 5_000, NOW)
    assert message is not None
    assert (message.topic, message.queue_id, message.body) == ("orders", 3, b"body")
    properties = decode_properties(message.properties.decode())
    assert properties["colour"] == "blue"
    assert (properties["TIMER_ENQUEUE_MS"], properties["TIMER_DEQUEUE_MS"]) == (str(NOW - 5_000), str(NOW))


def test_times_of_an_earlier_wait_are_replaced() -> None:
    message = waited(waiting(TIMER_ENQUEUE_MS="1", TIMER_DEQUEUE_MS="2"), NOW - 5_000, NOW)
    assert message is not None
    assert message.properties.count(b"TIMER_ENQUEUE_MS") == 1
    assert decode_properties(message.properties.decode())["TIMER_ENQUEUE_MS"] == str(NOW - 5_000)


@pytest.mark.parametrize(("before", "after"), [("", "1"), ("4", "5"), ("many", "1")])
def test_a_message_that_goes_on_waiting_stays_in_the_timer_topic_and_is_counted(
    before: str, after: str
) -> None:
    message = waited(waiting(TIMER_ROLL_TIMES=before), NOW - 5_000, NOW, roll=True)
    assert message is not None
    assert message.topic == "rmq_sys_wheel_timer"
    assert decode_properties(message.properties.decode())["TIMER_ROLL_TIMES"] == after


@pytest.mark.parametrize(
    "properties", [{"REAL_TOPIC": ""}, {"REAL_QID": ""}, {"REAL_QID": "x"}, {"TIMER_DEL_UNIQKEY": "ID"}]
)
def test_nothing_is_delivered_of_a_recall_or_of_a_message_without_a_queue(properties: dict[str, str]) -> None:
    assert waited(waiting(**properties), NOW - 5_000, NOW) is None


def test_a_message_without_space_for_the_times_is_delivered_without_them() -> None:
    filler = "x" * (MAX_COPIED_PROPERTIES_BYTES - len(waiting(filler="x").properties) + 1)
    message = waited(waiting(filler=filler), NOW - 5_000, NOW)
    assert message is not None
    assert len(message.properties) == MAX_COPIED_PROPERTIES_BYTES
    assert b"TIMER_ENQUEUE_MS" not in message.properties


def test_a_recall_takes_back_messages_of_its_topic_alone() -> None:
    assert recall_key("orders", "ID", names_topic=False) == "orders+ID"
    assert recall_key("orders", "orders+ID", names_topic=True) == "orders+ID"
    assert recall_key("orders", "other+ID", names_topic=True) == "orders+other+ID"


def test_the_sender_of_a_waiting_message_gets_a_handle_and_a_retry_none() -> None:
    message = waited(waiting(TIMER_OUT_MS=str(NOW)), NOW, NOW, roll=True)
    assert message is not None
    handle = recall_handle(message, "broker-a", "ID")
    assert handle is not None
    assert RecallHandle.decode(handle) == ("orders", "broker-a", NOW + 1, "ID")
    assert recall_handle(message, "broker-a", None) is None
    retry = replace(message, properties=message.properties.replace(b"orders", b"%RETRY%g"))
    assert recall_handle(retry, "broker-a", "ID") is None
