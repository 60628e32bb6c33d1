"""The broker that users' tests are given."""

from __future__ import annotations

import pytest

from orbitmq.sync import FIRST_OFFSET, Message, Producer, PushConsumer
from orbitmq.testing import Isolated


@pytest.mark.parametrize("test", [1, 2])
def test_each_test_has_topics_and_groups_of_its_own(rocketmq_isolated: Isolated, test: int) -> None:
    mine = rocketmq_isolated
    orders = mine.topic("orders", queues=1)
    assert mine.topic("orders") == orders
    with Producer("shop", mine.namesrv) as producer:
        [queue] = producer.queues(orders)
        result = producer.send(Message(orders, f"order of test {test}"))
        assert (result.queue, result.queue_offset) == (queue, 0)
    with PushConsumer(mine.group("billing"), mine.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(orders)
        assert next(iter(consumer)).body == f"order of test {test}".encode()
