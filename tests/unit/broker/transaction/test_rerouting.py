"""Half messages as they are sent: which are rerouted, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC
from tests.kit.transactions import Transacting


def test_a_half_message_is_rerouted_with_its_topic_and_queue(world: Transacting) -> None:
    sent = world.half(properties="TRANSACTION_CHECK_TIMES\x0114\x02TRAN_PREPARED_QUEUE_OFFSET\x0199\x02")
    assert world.bodies() == []
    (half,) = world.halves()
    assert (half.topic, half.queue_id, half.queue_offset, half.sys_flag) == (HALF_TOPIC, 0, 0, 0)
    properties = half.property_map()
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("TopicTest", "1")
    assert properties["__transactionId__"] == properties["UNIQ_KEY"] == sent.transaction_id == "ID000001"
    assert not {"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"} & set(properties)
    assert (sent.queue_id, sent.queue_offset) == (1, 0)
    assert world.broker.transactions.figures.open == {("TopicTest", "PG"): 1}


@pytest.mark.parametrize(
    "property_", ["DELAY\x013\x02", "TIMER_DELAY_SEC\x011\x02", "TIMER_DELIVER_MS\x019\x02"]
)
def test_a_half_message_cannot_be_delayed(world: Transacting, property_: str) -> None:
    with pytest.raises(Refused) as refused:
        world.half(properties=property_)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert world.halves() == []
    assert world.broker.transactions.figures.open == {}


def test_a_delay_of_zero_is_none(world: Transacting) -> None:
    world.half(properties="DELAY\x010\x02")
    assert len(world.halves()) == 1


def test_a_message_that_comes_back_for_a_retry_is_no_half_message(world: Transacting) -> None:
    world.half(properties="DELAY\x013\x02", topic="%RETRY%G", queue_id=0, reconsume_times=1)
    assert world.halves() == []
    assert world.real.stored("SCHEDULE_TOPIC_XXXX", 2).body == b"body 1"


def test_half_messages_can_be_refused(tmp_path: Path) -> None:
    world = Transacting(tmp_path, rejectTransactionMessage=True)
    with pytest.raises(Refused) as refused:
        world.half()
    assert refused.value.code == ResponseCode.NO_PERMISSION
    world.close()
