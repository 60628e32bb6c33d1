"""Pops: what was reported of check points and acknowledgements elsewhere."""

from __future__ import annotations

import pytest

from orbitmq.protocol.handles.pop import pop_retry_topic
from tests.kit.pop import GROUP, TOPIC, PopWorld
from tests.kit.store import full_disk


def test_a_message_comes_again_though_its_first_revival_could_not_be_stored(pops: PopWorld) -> None:
    """apache/rocketmq#10667"""
    [body] = pops.send()
    pops.pop(invisible_time=3_000)
    with full_disk(pops.store, pops.now):
        pops.wait(10_000)
        assert pops.store.max_offset(pop_retry_topic(TOPIC, GROUP), 0) <= 0
    pops.wait(20_000)
    assert [got.body for got in pops.pop()] == [body]


@pytest.mark.parametrize("after_ms", [0, 900, 1_000, 1_100, 2_000])
def test_an_acknowledgement_is_final_while_check_points_leave_memory(pops: PopWorld, after_ms: int) -> None:
    """apache/rocketmq#10736"""
    pops.broker.settings.pop_ck_stay_buffer_time = 1_000
    pops.send(2)
    first, second = pops.pop(invisible_time=5_000)
    pops.wait(after_ms)
    pops.ack(first)
    pops.wait(30_000)
    assert [got.body for got in pops.pop()] == [second.body]
