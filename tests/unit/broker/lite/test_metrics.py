"""Metrics of lite topics."""

from __future__ import annotations

from pathlib import Path

from orbitmq.broker.metrics import AgeOf, Sample, samples
from orbitmq.protocol.lite_topics import lite_queue
from tests.kit.lite import GROUP, PARENT, LiteWorld

LABELS = (GROUP, "false", "false", PARENT)


def lag_samples(world: LiteWorld) -> dict[str, Sample]:
    found = [one for one in samples(world.broker, world.now) if one is not None]
    assert [one.value for one in found if one.family == "orbitmq_light_queues"] == [2]
    assert [one.value for one in found if one.family == "orbitmq_lite_subscriptions"] == [2]
    return {one.family: one for one in found if one.labels == LABELS and "consumer_" in one.family}


def test_numbers_of_lite_topics_and_the_backlog_of_a_lite_group_on_request(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    world.add("c1", "a", "b")
    world.put("a", 3)
    world.put("b")
    world.put("a", 2)
    world.settle(*world.take("c1", max_msg_num=2))
    world.take("c1", max_msg_num=1)
    assert lag_samples(world) == {}
    world.broker.settings.lite_lag_count_metrics_enable = True
    counts = lag_samples(world)
    assert {name: one.value for name, one in counts.items()} == {
        "rocketmq_consumer_lag_messages": 4,
        "rocketmq_consumer_ready_messages": 4,
    }
    world.broker.settings.lite_lag_count_metrics_enable = False
    world.broker.settings.lite_lag_latency_metrics_enable = True
    (age,) = lag_samples(world).values()
    assert age.family == "rocketmq_consumer_lag_latency_milliseconds"
    assert age.value == AgeOf(((lite_queue(PARENT, "a"), 0, 2),))  # the third message of all came before b's
    world.close()
