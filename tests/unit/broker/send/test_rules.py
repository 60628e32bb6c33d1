"""The message that a send becomes, and refusals by its content; answers are in `test_handlers`."""

from __future__ import annotations

from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.send.rules import Incoming, accept
from orbitmq.broker.send.tables import SendTables
from orbitmq.handling.call import Call
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.properties import decode_properties
from tests.kit.real_broker import message
from tests.kit.world import NOW, World

ID = "UNIQ_KEY\x01AB\x02"


def accepted(properties: str = ID, **more: Any) -> Incoming:
    world = World()
    world.settings.reject_transaction_message = False  # type: ignore[attr-defined]
    world.settings.max_message_size = 4 << 20  # type: ignore[attr-defined]
    world.topics.ensure("TopicTest", 4, NOW)
    world.store.retention = SimpleNamespace(is_pressed=False)  # type: ignore[attr-defined]
    world.store.has_lmqs = False  # type: ignore[attr-defined]
    rows = [row.name for row in fields(SendTables) if row.default is MISSING]
    tables = SendTables(**{name: getattr(world, name, None) for name in rows})
    tables.new_unique_id = lambda now: "MADEHERE"
    request = message(properties=properties, **more)
    return accept(tables, Call(request, request.to_command(), world.peer()), b"CLUSTER\x01C\x02", NOW)


def test_a_message_has_its_senders_properties_but_those_that_only_the_broker_sets() -> None:
    sent = f"{ID}KEYS\x01k\x02POP_CK\x01x\x02MSG_REGION\x01x\x02TRACE_ON\x01x\x02CLUSTER\x01x\x02"
    incoming = accepted(sent)
    assert decode_properties(incoming.message.properties) == {"UNIQ_KEY": "AB", "KEYS": "k", "CLUSTER": "C"}
    assert incoming.unique_id == "AB"


@pytest.mark.parametrize(
    ("properties", "queue_id"),
    [
        ("_SYS_MSG_PRIORITY_\x013\x02", 3),
        ("_SYS_MSG_PRIORITY_\x0199\x02", 3),
        ("_SYS_MSG_PRIORITY_\x01-1\x02", 1),
        ("_SYS_MSG_PRIORITY_\x013\x02__SHARDINGKEY\x01k\x02", 1),
    ],
)
def test_the_queue_of_a_priority_is_the_one_of_that_number_or_the_last(
    properties: str, queue_id: int
) -> None:
    assert accepted(ID + properties).message.queue_id == queue_id


def test_a_delayed_and_a_half_message_are_stored_elsewhere_and_answered_with_the_queue_asked_for() -> None:
    delayed = accepted(f"{ID}DELAY\x013\x02", queue_id=2)
    assert (delayed.message.topic, delayed.message.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    half = accepted(f"{ID}TRAN_MSG\x01true\x02PGROUP\x01PG\x02", queue_id=2)
    assert (half.message.topic, half.message.queue_id) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert delayed.queue_id == half.queue_id == 2


@pytest.mark.parametrize(
    "properties", [f"{ID}TRAN_MSG\x01true\x02PGROUP\x01PG\x02DELAY\x013\x02", f"{ID}k\x01{'v' * 33_000}\x02"]
)
def test_a_transaction_is_not_delayed_and_properties_have_a_limit(properties: str) -> None:
    with pytest.raises(Refused) as refused:
        accepted(properties)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_retry_beyond_the_limit_of_its_group_becomes_a_dead_letter() -> None:
    retry = {"topic": "%RETRY%g", "queue_id": 0}
    assert accepted(**retry, reconsume_times=16).message.topic == "%RETRY%g"
    assert accepted(**retry, reconsume_times=17).message.topic == "%DLQ%g"
