"""Controllers: what was reported of connections elsewhere."""

from __future__ import annotations

from orbitmq.controller.live import LiveBroker, LiveBrokers


def test_the_late_end_of_an_old_connection_takes_no_broker_that_has_come_again() -> None:
    """apache/rocketmq#11045"""
    live, master = LiveBrokers(), ("group", 1)
    live.heartbeat(master, LiveBroker("h:1", 7, 0, 10_000))
    again = LiveBroker("h:1", 8, 5_000, 10_000)
    live.heartbeat(master, again)
    assert live.connection_closed(7) == []
    assert live.get(master) is again
