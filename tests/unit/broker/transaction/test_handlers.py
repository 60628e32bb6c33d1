"""Decisions that come together, and those about half messages that have only just been stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.broker.transaction.handlers import decisions_first
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.message import TRANSACTION_COMMIT
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.protocol.requests.transaction import EndTransaction
from tests.kit.real_broker import NOW, PEER, message
from tests.kit.transactions import COMMIT, ROLLBACK, Transacting

HALF = message(properties="UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02", sys_flag=4)
END = EndTransaction("PG", 0, 0, COMMIT, "AB")


@pytest.fixture
def transacting(tmp_path: Path) -> Iterator[Transacting]:
    made = Transacting(tmp_path)
    made.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4, write_queue_nums=4), NOW)
    yield made
    made.close()


def test_decisions_go_before_half_messages_and_past_nothing_else() -> None:
    plain = message()
    named = SendMessage("PG", "TopicTest", "TBW102", 4, 1, 4, NOW, 0, HALF.properties)
    came = [END, HALF, END, named, END, plain, HALF, plain, END, HALF]
    commands = [request.to_command(opaque=number) for number, request in enumerate(came)]
    assert [command.opaque for command in decisions_first(commands)] == [0, 2, 4, 1, 3, 5, 6, 7, 8, 9]


def test_a_plain_message_that_mentions_a_transaction_stays_in_its_place() -> None:
    mentions = message(properties="UNIQ_KEY\x01AB\x02XTRAN_MSG\x01true\x02TRAN_MSG\x01false\x02")
    commands = [mentions.to_command(opaque=1), END.to_command(opaque=2)]
    assert decisions_first(commands) == commands


def test_a_commit_publishes_its_half_message_once(
    transacting: Transacting,
) -> None:
    sent = transacting.half("CITY\x01Köln\x02a\x01b\x01c\x02", flag=3, queue_id=2)
    transacting.decide(sent, COMMIT)
    (published,) = transacting.published()
    physical_offset = int(sent.msg_id[-16:], 16)
    assert published.prepared_transaction_offset == physical_offset
    assert (published.queue_id, published.flag, published.body) == (2, 3, b"body 1")
    assert published.sys_flag == TRANSACTION_COMMIT
    assert published.born_host == PEER.host
    assert published.properties.decode() == (
        "UNIQ_KEY\x01ID000001\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02TAGS\x01TagA\x02CITY\x01Köln\x02a\x01b\x01c\x02"
        "__transactionId__\x01ID000001\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    )
    with pytest.raises(Refused, match="has ended already"):
        transacting.decide(sent, ROLLBACK)
    assert transacting.decide(sent, COMMIT).code == 0
    assert len(transacting.published()) == 1


def test_a_decision_of_the_wrong_group_leaves_the_half_message_to_the_right_one(
    transacting: Transacting,
) -> None:
    sent = transacting.half()
    with pytest.raises(Refused, match="producer group wrong"):
        transacting.decide(sent, COMMIT, producer_group="other")
    transacting.decide(sent, COMMIT)
    assert len(transacting.published()) == 1


def test_a_broker_that_is_about_to_be_master_ends_no_transaction(transacting: Transacting) -> None:
    """It noted that these had ended, by places that counted from elsewhere once it knew what was open: the
    ends of other transactions were then refused, and their messages lost.
    """
    sent = transacting.half()
    role = transacting.broker.role
    role.fence()
    for decision in (ROLLBACK, COMMIT):
        with pytest.raises(Refused, match="ask the master"):
            transacting.decide(sent, decision)
    role.lead()
    transacting.decide(sent, COMMIT)
    assert len(transacting.published()) == 1
