from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.admin.static_topics import NotStatic, StaticTopic, _rounded_up
from orbitmq.protocol.bodies.static_topic import check_items
from orbitmq.protocol.bodies.topic import TopicConfigAndQueueMapping

BROKERS = ["a", "b", "c", "d"]


def part_of(topic: StaticTopic, broker: str) -> TopicConfigAndQueueMapping:
    """A broker's answer once it has taken a request."""
    request = topic.request(broker)
    return TopicConfigAndQueueMapping(
        request.topic, request.read_queue_nums, request.write_queue_nums, mapping_detail=request.body
    )


def parts_of(topic: StaticTopic) -> dict[str, TopicConfigAndQueueMapping]:
    return {broker: part_of(topic, broker) for broker in BROKERS}


def leaders(topic: StaticTopic) -> Counter[str]:
    return Counter(state.broker for state in topic.states())


@given(
    st.integers(1, 12),
    st.lists(st.lists(st.sampled_from(BROKERS), min_size=1, unique=True), min_size=1, max_size=5),
)
def test_queues_are_shared_evenly_and_no_more_of_them_move_than_have_to(
    count: int, moves: list[list[str]]
) -> None:
    topic = StaticTopic("T", {})
    topic.add_queues(count, moves[0])
    for number, targets in enumerate(moves):
        before = {state.queue: state.broker for state in topic.states()}
        topic.move_to(targets)
        led = leaders(topic)
        assert set(led) <= set(targets)
        assert max(led.values()) - min(led[name] for name in targets) <= 1
        stays = sum(state.broker == before[state.queue] for state in topic.states())
        share, more = divmod(count, len(targets))
        had = sorted((Counter(before.values())[name] for name in targets), reverse=True)
        assert stays == sum(min(led_before, share + (n < more)) for n, led_before in enumerate(had))
        for items in topic.unplaced():
            items[-1].logic_offset = (number + 1) * 10_000
        for items in topic.queues.values():
            check_items(items)
        places = Counter((item.bname, item.queue_id) for items in topic.queues.values() for item in items)
        assert set(places.values()) == {1}, "no physical queue serves two logical ones"
        topic = StaticTopic("T", parts_of(topic))
        assert leaders(topic) == led


def test_a_move_that_was_broken_off_is_known_from_the_brokers_that_heard_of_it() -> None:
    topic = StaticTopic("T", {})
    topic.add_queues(2, ["a"])
    topic.epoch = 1
    parts = parts_of(topic)
    topic.move_to(["b"])
    topic.epoch = 2
    parts["b"] = part_of(topic, "b")
    found = StaticTopic("T", parts)
    assert (found.epoch, leaders(found)) == (2, {"b": 2})
    assert len(found.unplaced()) == 2
    with pytest.raises(NotStatic, match="still being moved"):
        found.move_to(["c"])


def test_topics_that_are_not_static_or_not_whole() -> None:
    with pytest.raises(NotStatic, match="ordinary topic on a"):
        StaticTopic("T", {"a": TopicConfigAndQueueMapping("T")})
    topic = StaticTopic("T", {})
    topic.add_queues(2, ["a", "b"])
    with pytest.raises(NotStatic, match="hosts queue 1 of T"):
        StaticTopic("T", {"a": part_of(topic, "a")})


def test_places_of_stretches() -> None:
    assert [_rounded_up(offset) for offset in (0, 4_999, 5_000, 9_999, 10_000)] == [
        10_000, 10_000, 20_000, 20_000, 20_000
    ]  # fmt: skip
