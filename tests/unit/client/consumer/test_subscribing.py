"""Subscriptions: those that a consumer refuses, and the row of those that it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.subscribing import Asked
from orbitmq.client.core.errors import CannotIterate, InvalidArgument
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import ConsumerOptions


async def handle(message: ReceivedMessage) -> None: ...


def handle_in_thread(message: ReceivedMessage) -> None: ...


def asked(**changes: Any) -> Asked:
    values: dict[str, Any] = {
        "topic": "T",
        "tags": "*",
        "handler": handle,
        "timeout_ms": None,
        "max_messages": None,
        "max_wait_ms": 0,
        "manual_ack": False,
        "serializer": None,
    }
    return Asked(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        ({"topic": 1}, {}, "topic has to be a text"),
        ({"handler": 5}, {}, "handler has to be a function"),
        ({"tags": handle}, {}, "is handler= missing"),
        ({"timeout_ms": 0}, {}, "timeout_ms"),
        ({"timeout_ms": 5, "handler": handle_in_thread}, {}, "timeout_ms is for async handlers only"),
        ({"timeout_ms": 5, "handler": None}, {}, "timeout_ms is for async handlers only"),
        ({"max_wait_ms": 5}, {}, "max_wait_ms goes with max_messages"),
        ({"max_messages": 0}, {}, "max_messages"),
        ({"max_messages": 1001}, {"pull_threshold_for_queue": 1000}, "max_messages"),
        ({"max_messages": 1.5}, {}, "max_messages has to be an int"),
        ({"max_messages": 5, "handler": None}, {}, "max_messages is for handlers"),
        ({"max_messages": 5}, {"max_in_flight_per_key": 1}, "handlers of single messages"),
        ({"manual_ack": True, "handler": None}, {}, "manual_ack is for handlers"),
        ({"manual_ack": True}, {"ordered": True}, "not for ordered consumers"),
        ({"manual_ack": True}, {"ordered_by_key": True}, "not for ordered consumers"),
        ({"max_messages": 5}, {"ordered_by_key": True}, "ordered_by_key is for handlers of single messages"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    changes: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument, match=text):
        asked(**changes).check(ConsumerOptions("G", **options), set())


def test_an_ordered_consumer_needs_a_handler() -> None:
    with pytest.raises(CannotIterate, match="ordered"):
        asked(handler=None).check(ConsumerOptions("G", ordered=True), set())


def test_a_topic_is_subscribed_to_once_also_within_a_namespace() -> None:
    asked().check(ConsumerOptions("G"), {"U"})
    with pytest.raises(InvalidArgument, match="T is subscribed to already: unsubscribe it first"):
        asked().check(ConsumerOptions("G"), {"T"})
    with pytest.raises(InvalidArgument, match="subscribed to already"):
        asked().check(ConsumerOptions("G", namespace="N"), {"N%T"})


def test_a_refusal_names_the_class_that_was_asked() -> None:
    consumer = PushConsumer("G")
    consumer.subscribe("T", handler=handle)
    with pytest.raises(InvalidArgument, match=r"^PushConsumer\.subscribe: T is subscribed"):
        consumer.subscribe("T", handler=handle)
    consumer.unsubscribe("T")
    consumer.subscribe("T", "a || b", handle)


def test_a_row_says_which_handlers_may_block() -> None:
    assert asked().subscription("T", "g", 7).is_async
    assert not asked(handler=handle_in_thread).subscription("T", "g", 7).is_async
    row = asked(handler=None, tags="a || b").subscription("N%T", "g", 7)
    assert (row.data.topic, row.data.sub_string, row.handler) == ("N%T", "a || b", None)
