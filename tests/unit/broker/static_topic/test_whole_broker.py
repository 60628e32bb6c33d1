"""A whole broker with a queue whose earlier messages are in another queue of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.offset import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import (
    COMMITS_OFFSET,
    SUBSCRIPTION_IN_REQUEST,
    LitePullMessage,
    PullMessage,
    PullReply,
)
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.requests.topic import UpdateAndCreateStaticTopic
from orbitmq.protocol.schema.declare import Request
from tests.kit.real_broker import NOW, PEER, RealBroker, resumed
from tests.kit.waiting import met

EARLIER, LATER = Item(0, 2, "broker-a", 0), Item(1, 1, "broker-a", 10_000)


def make_static(real: RealBroker, epoch: int, *items: Item) -> None:
    mapping = TopicQueueMappingDetail(
        "T", total_queues=1, bname="broker-a", epoch=epoch, hosted_queues={0: list(items)}
    )
    resumed(real.handle(UpdateAndCreateStaticTopic("T", "", 3, 3, 6, "SINGLE_TAG", False, body=mapping)))


def send(queue_id: int, number: int) -> bytes:
    request = SendMessageV2(
        "P", "T", "TBW102", 4, queue_id, 0, NOW, 0, f"UNIQ_KEY\x01{number}\x02", body=b"b"
    )
    return encode_command(request.to_command(number))


def ask(real: RealBroker, request: Request[Any]) -> Any:
    result = real.handle(request, NOW + 10)
    while hasattr(result, "then"):
        result = result.then(met(result), NOW + 10)
    return result


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealBroker]:
    real = RealBroker(tmp_path / "store")
    make_static(real, 1, EARLIER)
    answers = real.read_sends(b"".join(send(0, number) for number in range(3)))
    assert [(one.ext["queueId"], one.ext["queueOffset"]) for one in answers] == [
        ("0", str(n)) for n in range(3)
    ]
    make_static(real, 2, EARLIER, LATER)
    answers = real.read_sends(send(0, 3) + send(-1, 4), NOW + 5)
    assert [one.ext["queueOffset"] for one in answers] == ["10000", "10001"]
    real.broker.groups.find("G", NOW)
    yield real
    real.close()


def test_frames_of_a_static_topic_are_left_to_the_rules(real: RealBroker) -> None:
    assert real.handle_sends(send(0, 9), PEER, NOW) is None
    pull = PullMessage("G", "T", 0, 0, 32, SUBSCRIPTION_IN_REQUEST, 0, 0, 0, subscription="*")
    assert real.handle_pulls(encode_command(pull.to_command(1)), PEER, NOW) is None


def test_requests_for_the_logical_queue(real: RealBroker) -> None:
    assert ask(real, GetMinOffset("T", 0)).offset == 0
    assert ask(real, GetMaxOffset("T", 0)).offset == 10_002
    assert ask(real, GetMaxOffset("T", 2, logical=False)).offset == 3
    assert ask(real, GetEarliestMsgStoretime("T", 0)).timestamp == NOW
    assert ask(real, SearchOffsetByTimestamp("T", 0, NOW + 1)).offset == 10_000
    assert ask(real, SearchOffsetByTimestamp("T", 0, NOW + 1, "upper")).offset == 2
    assert real.refusal(GetMinOffset("T", 1)).code == ResponseCode.NOT_LEADER_FOR_QUEUE


@pytest.mark.parametrize("kind", [PullMessage, LitePullMessage])
def test_pulls_and_positions_of_a_group(real: RealBroker, kind: type[PullMessage | LitePullMessage]) -> None:
    def pull(offset: int, commit: int = 0) -> PullReply:
        flags = SUBSCRIPTION_IN_REQUEST | (COMMITS_OFFSET if commit else 0)
        reply = ask(real, kind("G", "T", 0, offset, 32, flags, commit, 0, 0, subscription="*"))
        assert isinstance(reply, PullReply)
        return reply

    first = pull(1)
    assert (first.next_begin_offset, first.max_offset, first.offset_delta) == (3, 10_000, 0)
    moved = pull(3, commit=2)
    assert (moved.code, moved.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10_000)
    assert ask(real, QueryConsumerOffset("G", "T", 0)).offset == 2
    second = pull(10_001, commit=10_001)
    assert (second.next_begin_offset, second.offset_delta) == (10_002, 10_000)
    assert ask(real, QueryConsumerOffset("G", "T", 0)).offset == 10_001
    assert real.broker.offsets.queues("G", "T") == {2: 3, 1: 1}, "it is through with the first stretch"
    pull(10_001, commit=3)
    assert ask(real, QueryConsumerOffset("G", "T", 0)).offset == 10_001, "it is for a request of its own"
    ask(real, UpdateConsumerOffset("G", "T", 0, 3))
    assert ask(real, QueryConsumerOffset("G", "T", 0)).offset == 3


def test_an_offset_before_the_first_stretch_that_is_left(real: RealBroker) -> None:
    make_static(real, 3, LATER)
    pull = PullMessage("G", "T", 0, 7, 32, SUBSCRIPTION_IN_REQUEST, 0, 0, 0, subscription="*")
    reply = ask(real, pull)
    assert (reply.code, reply.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 10_000)
