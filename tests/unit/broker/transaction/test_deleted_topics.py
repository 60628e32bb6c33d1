"""Half messages of a topic that was deleted: none of them comes into one that is made anew under its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import TRANSACTION_CHECK_TOPIC
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.protocol.requests.transaction import ResumeCheckHalfMessage
from tests.kit.real_broker import HOST, message
from tests.kit.store import read_queue
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, TIMEOUT, Transacting


@pytest.fixture
def transacting(tmp_path: Path) -> Iterator[Transacting]:
    made = Transacting(tmp_path)
    make(made)
    yield made
    made.close()


def make(transacting: Transacting, topic: str = "TopicTest") -> None:
    transacting.broker.topics.put(TopicConfig(topic, 4, 4, 6), transacting.now)
    transacting.broker.topics.note_saved()


def make_anew(transacting: Transacting) -> None:
    transacting.now += 10
    transacting.real.handle(DeleteTopicInBroker("TopicTest"), transacting.now)
    transacting.now += 10
    make(transacting)


def resume(transacting: Transacting, physical_offset: int) -> Refused:
    return transacting.real.refusal(ResumeCheckHalfMessage(msg_id=offset_message_id(HOST, physical_offset)))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_commit_is_refused_and_ends_the_transaction(transacting: Transacting, restarts: bool) -> None:
    sent = transacting.half()
    make_anew(transacting)
    own = transacting.half()
    if restarts:
        transacting.restart()
    refused = transacting.refusal(transacting.request(sent, COMMIT))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert "TopicTest was deleted after the half message ID000001" in str(refused)
    assert "has ended already" in str(transacting.refusal(transacting.request(sent, COMMIT)))
    transacting.decide(sent, ROLLBACK)
    transacting.decide(own, COMMIT)
    assert transacting.bodies() == [b"body 2"]
    assert not transacting.open_halves()
    transacting.kill()
    assert transacting.bodies()[-1:] == [b"body 2"]
    assert not transacting.open_halves()


def test_commits_of_one_read_are_refused_too(transacting: Transacting) -> None:
    """They take the short way, which knows half messages by their place in the log alone."""
    sent = transacting.half()
    make_anew(transacting)
    transacting.decide(transacting.half(), COMMIT)  # the short way needs a queue that is there
    own = transacting.half()
    half = message(properties="UNIQ_KEY\x01ID9\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02", sys_flag=4)
    requests = [half, *(transacting.request(one, COMMIT) for one in (sent, own))]
    data = b"".join(encode_command(one.to_command(number)) for number, one in enumerate(requests))
    answers = transacting.real.read(data, transacting.now)
    assert [answers[number][0] for number in range(3)] == [0, ResponseCode.TOPIC_NOT_EXIST, 0]
    assert transacting.bodies() == [b"body 2", b"body 3"]


def test_nobody_is_asked_about_them(transacting: Transacting) -> None:
    sent = [transacting.half() for _ in range(3)]
    transacting.pass_ms(max(TIMEOUT, INTERVAL) + 1_000)
    assert len(transacting.asked) == 3  # copies take their place from here on
    make_anew(transacting)
    own = transacting.half()
    assert len(transacting.open_halves()) == 4
    transacting.pass_ms(2 * INTERVAL + 1_000)
    assert [half.unique_id for half in transacting.open_halves()] == [own.transaction_id]
    assert {check.transaction_id for check in transacting.asked[3:]} == {own.transaction_id}
    assert "has ended already" in str(transacting.refusal(transacting.request(sent[0], COMMIT)))
    assert transacting.broker.transactions.figures.open_count == 1


def test_a_half_message_of_it_is_not_taken_up_again(transacting: Transacting) -> None:
    transacting.half(born_timestamp=transacting.now - 100 * 24 * 3_600_000)
    transacting.pass_ms(2 * INTERVAL)
    (laid,) = read_queue(transacting.real.store, TRANSACTION_CHECK_TOPIC)
    waiting = transacting.half()
    make_anew(transacting)
    for place in (laid.physical_offset, int(waiting.msg_id[-16:], 16)):
        assert resume(transacting, place).code == ResponseCode.TOPIC_NOT_EXIST
    assert not transacting.open_halves()
