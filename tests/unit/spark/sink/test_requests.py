from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.spark.sink.encoding import Outgoing
from orbitmq.spark.sink.requests import for_version, goes_alone, request_for

QUEUE = MessageQueue("orders", "broker-a", 3)
VERSION_4, VERSION_5 = 400, 493


def outgoing(number: int = 0, topic: str = "orders", waits_in: str | None = None) -> Outgoing:
    properties = f"UNIQ_KEY\x01ID{number}\x02".encode()
    return Outgoing(topic, None, 5, b"body", properties, f"ID{number}", number, b"", waits_in)


def test_a_message_alone_is_a_plain_send_to_its_queue() -> None:
    request = request_for([outgoing()], QUEUE, "writers")
    assert isinstance(request, SendMessageV2)
    assert (request.topic, request.queue_id, request.body, request.flag) == ("orders", 3, b"body", 5)
    assert request.properties == "UNIQ_KEY\x01ID0\x02"


def test_several_are_a_batch_under_the_id_of_the_first() -> None:
    request = request_for([outgoing(0), outgoing(1)], QUEUE, "writers")
    assert isinstance(request, SendBatchMessage)
    assert "UNIQ_KEY\x01ID0\x02" in (request.properties or "")
    assert request.flag == 0
    assert request.body is not None
    assert request.body.count(b"body") == 2


def test_brokers_before_5_get_a_batch_without_an_id_of_its_own() -> None:
    old = for_version(request_for([outgoing(0), outgoing(1)], QUEUE, "writers"), VERSION_4)
    assert "UNIQ_KEY" not in (old.properties or "")
    new = for_version(request_for([outgoing(0), outgoing(1)], QUEUE, "writers"), VERSION_5)
    assert "UNIQ_KEY" in (new.properties or "")
    alone = for_version(request_for([outgoing()], QUEUE, "writers"), VERSION_4)
    assert "UNIQ_KEY" in (alone.properties or "")


def test_delayed_messages_and_retries_go_alone() -> None:
    assert not goes_alone(outgoing())
    assert goes_alone(outgoing(waits_in="SCHEDULE_TOPIC_XXXX"))
    assert goes_alone(outgoing(topic="%RETRY%billing"))
