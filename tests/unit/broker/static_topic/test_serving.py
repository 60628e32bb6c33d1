"""Requests for logical queues at the broker that leads them, with earlier messages at another one."""

from dataclasses import replace
from typing import Any

import pytest

from orbitmq.broker.static_topic.serving import Serving, StaticTables
from orbitmq.handling.call import Call, DataAt, OtherBroker, Outcome, Wait
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Refused
from orbitmq.protocol.requests.offset import GetMaxOffset, OffsetReply, QueryConsumerOffset
from orbitmq.protocol.requests.pull import MAY_BE_HELD, PullMessage, PullReply
from tests.kit.world import NOW, World

LEADER = Item(1, 2, "broker-a", 10_000)


def held_pull(call: Call[PullMessage], now: int) -> Wait:
    """A pull of a physical queue that waits for one message more."""
    request = call.request
    following = request.queue_offset + 1
    on = DataAt(request.topic, request.queue_id, request.queue_offset, None)
    return Wait((on,), now, lambda outcome, later: PullReply(0, following, 0, following, body=b"records"))


class Led(World):
    """A broker that leads queue 0 of topic T, whose first messages are at broker-b."""

    forward_timeout = 1234

    def __init__(self) -> None:
        super().__init__()
        self.topics.put(TopicConfig("T", 4, 4), NOW)
        items = [Item(0, 1, "broker-b", 0), LEADER]
        self.topics.static.put(
            TopicQueueMappingDetail("T", total_queues=2, bname="broker-a", hosted_queues={0: items}), NOW
        )
        physical: dict[int, Any] = {
            kind.CODE: lambda call, now: self.handle(call.request, now=now)
            for kind in (GetMaxOffset, QueryConsumerOffset)
        }
        physical[PullMessage.CODE] = held_pull
        tables: Any = StaticTables(self.identity, self, self.topics, self.store)  # type: ignore[arg-type]
        self.handlers = Serving(tables, physical).handlers()

    def serve(self, request: Any) -> Any:
        return self.handlers[request.CODE](Call(request, request.to_command(), self.peer()), NOW)


def pull(offset: int) -> PullMessage:
    return PullMessage("G", "T", 0, offset, 32, MAY_BE_HELD, 0, 1000, 0)


def reply_to(wait: Any, **outcome: Any) -> Any:
    assert isinstance(wait, Wait)
    return wait.then(Outcome(outcome.pop("timed_out", False), **outcome), NOW)


def test_a_pull_of_earlier_messages_is_answered_by_the_broker_that_has_them() -> None:
    led = Led()
    wait = led.serve(pull(7))
    (question,) = wait.on
    assert isinstance(question, OtherBroker)
    assert question.name == "broker-b"
    sent = question.request.to_command().ext
    assert sent is not None
    assert (sent["lo"], sent["bname"], sent["queueId"], sent["queueOffset"]) == (
        "false",
        "broker-b",
        "1",
        "7",
    )
    there = PullReply.from_command(PullReply(0, 9, 0, 9, body=b"records").to_command())
    answer = reply_to(wait, value=there)
    # Read again as its client reads it: what the other broker said may not stay in its fields.
    answer = PullReply.from_command(answer.to_command())
    assert (answer.next_begin_offset, answer.max_offset, bytes(answer.body)) == (9, 10_000, b"records")


def test_a_pull_of_the_last_stretch_is_held_here() -> None:
    led = Led()
    wait = led.serve(pull(10_001))
    assert wait.on[0] == DataAt("T", 2, 1, None)
    answer = reply_to(wait)
    assert (answer.code, answer.next_begin_offset, answer.offset_delta) == (0, 10_002, 10_000)


def test_a_held_pull_ends_when_its_queue_moves_away() -> None:
    led = Led()
    static = led.topics.static
    wait = led.serve(pull(10_001))
    assert wait.any_of
    moved = [*static.by_topic["T"].hosted_queues[0], Item(2, 0, "broker-b", -1)]
    static.put(replace(static.by_topic["T"], hosted_queues={0: moved}), NOW)
    assert static.drain_woken() == [wait.on[1]]
    with pytest.raises(Refused) as refused:
        reply_to(wait)
    assert refused.value.code == ResponseCode.NOT_LEADER_FOR_QUEUE
    led.serve(GetMaxOffset("T", 0, logical=False))
    static.put(static.by_topic["T"], NOW)
    assert static.drain_woken() == [], "who does not wait any more is forgotten"


def test_a_pull_hears_of_messages_that_are_stored_and_not_shown_yet() -> None:
    led = Led()
    led.put("T", 1, count=5)  # the fake pull shows one
    wait = led.serve(PullMessage("G", "T", 1, 0, 32, MAY_BE_HELD, 0, 1000, 0, logical=False))
    assert reply_to(wait).max_offset == 5


def test_a_broker_that_does_not_answer_is_no_reason_to_begin_from_nothing() -> None:
    led = Led()
    for outcome in ({"timed_out": True}, {"error": NoNameServer([])}):
        wait = led.serve(QueryConsumerOffset("G", "T", 0))
        assert wait.deadline == NOW + led.forward_timeout
        with pytest.raises(Refused, match="broker-b, which holds earlier messages") as refused:
            reply_to(wait, **outcome)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
    wait = led.serve(QueryConsumerOffset("G", "T", 0))
    with pytest.raises(Refused) as refused:
        reply_to(wait, error=BrokerRefused(ResponseCode.QUERY_NOT_FOUND, "none"))
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


def test_queues_of_other_leaders_and_physical_queues() -> None:
    led = Led()
    with pytest.raises(Refused) as refused:
        led.serve(GetMaxOffset("T", 1))
    assert refused.value.code == ResponseCode.NOT_LEADER_FOR_QUEUE
    led.put("T", 1, count=3)
    physical = led.serve(GetMaxOffset("T", 1, logical=False))
    assert physical == OffsetReply(3)
    led.topics.static.put(replace(led.topics.static.by_topic["T"], hosted_queues={0: [LEADER]}), NOW)
    led.put("T", 2)
    assert led.serve(GetMaxOffset("T", 0)) == OffsetReply(10_001)
