"""The end of lite topics: by age, without messages, with their parent."""

from __future__ import annotations

from pathlib import Path

from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from tests.kit.lite import GROUP, PARENT, LiteWorld

MINUTE_MS = 60_000


def expire(world: LiteWorld) -> list[str]:
    """A round; gives the lite topics that are left."""
    while world.broker.lite_expiry.tick(world.now):
        pass
    return sorted(lmq.rpartition("$")[2] for lmq in world.store.lmqs())


def test_a_lite_topic_expires_when_nothing_comes_any_more(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path, minLiteTTl=5 * MINUTE_MS)
    limited = TopicConfig(PARENT, attributes={"message.type": "LITE", "lite.topic.expiration": "10"})
    world.broker.topics.put(limited, world.now)
    world.broker.topics.put(TopicConfig("Forever", attributes={"message.type": "LITE"}), world.now)
    world.broker.topics.note_saved()
    world.add("c1", "a", "b")
    world.put("a", 2)
    world.put("b")
    world.settle(*world.take("c1"))
    world.now += 4 * MINUTE_MS
    assert expire(world) == ["a", "b"]
    world.now += 4 * MINUTE_MS
    world.put("b")
    assert expire(world) == ["a", "b"]
    world.now += 5 * MINUTE_MS
    assert expire(world) == ["b"]
    assert world.committed("a") == -1
    assert lite_queue(PARENT, "a") not in world.broker.lite_subscriptions.clients["c1"].lmqs
    world.tell("COMPLETE_ADD", "c1", "a")
    again = world.put("a")
    assert [one.body for one in world.take("c1")] == again  # its offsets begin at 0 again
    assert world.committed("a") == 0
    world.close()


def test_lite_topics_go_with_their_parent(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    world.add("c1", "a")
    world.put("a")
    world.take("c1")
    world.real.handle(DeleteTopicInBroker(PARENT), world.now)
    assert (world.store.lmqs(), world.committed("a"), world.broker.lite_subscriptions.count) == ([], -1, 0)
    assert not len(world.broker.lite_pops.order)
    assert GROUP in world.broker.groups.by_name
    world.close()
