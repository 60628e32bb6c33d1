"""A broker with a topic of four queues, over a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.protocol.bodies.topic import TopicConfig
from tests.kit.real_broker import NOW, RealBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    broker = RealBroker(tmp_path)
    broker.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4, write_queue_nums=4), NOW)
    yield broker
    broker.close()
