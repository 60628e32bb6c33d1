"""A table of very many topics is taken in over several turns; all that others see is that it grows."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.handling.call import Call, OffLoop, Outcome, Pause, Peer, Wait
from orbitmq.nameserver.handlers.brokers import ROWS_PER_TURN
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import RegisterBroker, RegisterBrokerReply, UnregisterBroker
from orbitmq.protocol.schema.declare import BYTES_PER_ELEMENT
from tests.kit.nameserver_story import START, Story, off_loop_done
from tests.kit.registration import encode_compressed

MANY = 2 * ROWS_PER_TURN + 500
LAST = f"topic-{MANY - 1}"


def registration(names: list[str], counter: int = 1, queues: int = 4) -> RegisterBroker:
    table = {name: TopicConfig(name, queues, queues) for name in names}
    wrapper = TopicConfigAndMappingSerializeWrapper(table, DataVersion(counter, 0, START))
    return RegisterBroker("broker-a", "b:10911", "C", "b:10912", 0, body=RegisterBrokerBody(wrapper, []))


def ask(story: Story, request: Any) -> Any:
    """Result of the turn in which the request arrives."""
    command = request.to_command()
    read = type(request).from_command(command)
    return story.handlers[request.CODE](Call(read, command, Peer(1, b"", "127.0.0.1:1", 493)), story.now)


def begin(story: Story, request: Any) -> Any:
    """Result of the first turn in which a registration is taken in."""
    result = ask(story, request)
    if isinstance(result, Wait) and isinstance(result.on[0], OffLoop):
        return off_loop_done(result, story.now)
    return result


def rest(result: Any, story: Story) -> Any:
    """The reply, after all further turns, and how many they were."""
    turns = 0
    while isinstance(result, Wait):
        assert [type(condition) for condition in result.on] == [Pause]
        result = result.then(Outcome(timed_out=False), story.now)
        turns += 1
    return result, turns


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def names() -> list[str]:
    return [f"topic-{n}" for n in range(MANY)]


def queues(story: Story, topic: str) -> int | None:
    route = story.server.routes.route(topic)
    return None if route is None else route.queue_datas[0].read_queue_nums


def test_a_first_table_is_there_after_some_turns(story: Story, names: list[str]) -> None:
    first = begin(story, registration(names))
    assert queues(story, names[0]) == 4
    assert queues(story, LAST) is None
    reply, turns = rest(first, story)
    assert isinstance(reply, RegisterBrokerReply)
    assert turns == 2
    assert queues(story, LAST) == 4


def test_a_table_that_is_known_takes_one_turn(story: Story, names: list[str]) -> None:
    rest(begin(story, registration(names)), story)
    assert isinstance(begin(story, registration(names)), RegisterBrokerReply)


def test_a_topic_that_changes_meanwhile_stays_as_it_was_told_last(story: Story, names: list[str]) -> None:
    first = begin(story, registration(names))
    change = begin(story, registration([LAST], counter=2, queues=8))
    rest(first, story)
    rest(change, story)
    assert queues(story, LAST) == 8
    assert queues(story, names[-2]) == 4


def test_a_change_does_not_cut_the_table_short(story: Story, names: list[str]) -> None:
    begin(story, registration(names))  # whose connection went, so that it is never continued
    rest(begin(story, registration([names[0]], counter=2, queues=8)), story)
    assert queues(story, LAST) == 4


def test_a_broker_that_goes_meanwhile_leaves_no_rows(story: Story, names: list[str]) -> None:
    first = begin(story, registration(names))
    story.ask(UnregisterBroker("broker-a", "b:10911", "C", 0))
    rest(first, story)
    assert story.server.routes.topics == {}


def test_a_long_registration_is_read_in_a_thread_and_a_short_one_at_once(
    story: Story, names: list[str]
) -> None:
    assert isinstance(ask(story, registration(names[:3])), RegisterBrokerReply)
    result = ask(story, registration(names, counter=2))
    assert [type(condition) for condition in result.on] == [OffLoop]
    assert queues(story, LAST) is None
    rest(off_loop_done(result, story.now), story)
    assert queues(story, LAST) == 4


def test_a_compressed_registration_is_read_in_a_thread_whatever_its_length(story: Story) -> None:
    request = registration(["T"])
    assert isinstance(request.body, RegisterBrokerBody)
    request.body, request.compressed = encode_compressed(request.body), True
    result = ask(story, request)
    assert [type(condition) for condition in result.on] == [OffLoop]


def test_a_registration_of_too_many_elements_is_refused(story: Story) -> None:
    request = registration(["T"])
    request.body = b"[" + b"," * (RegisterBroker.MAX_BODY // BYTES_PER_ELEMENT) + b"]"
    with pytest.raises(Refused, match="too many elements"):
        off_loop_done(ask(story, request), story.now)
    assert queues(story, "T") is None
