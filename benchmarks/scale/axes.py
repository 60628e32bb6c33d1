"""Axes of growth: each axis fills a fresh broker up to a size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.scale.probe import (
    PATIENCE_MS,
    Probe,
    ahead,
    batch_request,
    heartbeat_request,
    pull_request,
    send_request,
    topic_request,
)
from benchmarks.watched import Watched
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.schema.declare import Request

HELD_MS = 3_600_000
MEMBERS = 10
"""Clients in a consumer group, queues of a topic."""
BATCH = 1_000
SMALL_BODY = b"0123456789"


@dataclass(frozen=True, slots=True)
class Axis:
    """`fill` makes a broker as large as a point says; what it enters into the stack lasts for the point."""

    name: str
    title: str
    sizes: tuple[int, ...]
    fill: Callable[[Watched, Probe, int, ExitStack], dict[str, Any]]
    properties: tuple[tuple[str, object], ...] = ()


def _crowd(broker: Watched, size: int, stack: ExitStack) -> list[BlockingConnection]:
    return [stack.enter_context(BlockingConnection(broker.broker)) for _ in range(size)]


def _connections(broker: Watched, probe: Probe, size: int, stack: ExitStack) -> dict[str, Any]:
    """Each connection is a client of a group of ten, with a pull that is held."""
    probe.call(topic_request("ScaleHeld", 16))
    crowd = _crowd(broker, size, stack)
    for start in range(0, size, 500):
        part = list(enumerate(crowd))[start : start + 500]
        for number, connection in part:
            connection.send(heartbeat_request(f"c{number}", f"g{number // MEMBERS}", "ScaleHeld"))
        for _, connection in part:
            connection.receive(PATIENCE_MS)
        for number, connection in part:
            group = f"g{number // MEMBERS}"
            connection.send(pull_request("ScaleHeld", number % 16, 0, group=group, hold_ms=HELD_MS))
    return {}


def _queues(broker: Watched, probe: Probe, size: int, stack: ExitStack) -> dict[str, Any]:
    """Topics of ten queues, each with a message and a group's offset."""
    topics = range(size // MEMBERS)
    ahead(probe.connection, (topic_request(f"ScaleTopic{n}", MEMBERS) for n in topics))

    def each() -> Iterator[Request[Any]]:
        for topic in topics:
            for queue_id in range(MEMBERS):
                yield send_request(f"ScaleTopic{topic}", queue_id)
                yield UpdateConsumerOffset("ScaleReader", f"ScaleTopic{topic}", queue_id, 1)

    probe.call(heartbeat_request("reader", "ScaleReader", "ScaleTopic0"))
    ahead(probe.connection, each())
    return {}


def _groups(broker: Watched, probe: Probe, size: int, stack: ExitStack) -> dict[str, Any]:
    """Groups of one client each on one topic of eight queues, with offsets and a pull that is held."""
    probe.call(topic_request("ScaleHeld", 8))
    for number, connection in enumerate(_crowd(broker, size, stack)):
        group = f"g{number}"
        connection.call(heartbeat_request(f"c{number}", group, "ScaleHeld"), PATIENCE_MS)
        ahead(connection, (UpdateConsumerOffset(group, "ScaleHeld", queue, 0) for queue in range(8)))
        connection.send(pull_request("ScaleHeld", number % 8, 0, group=group, hold_ms=HELD_MS))
    return {}


def _pending(broker: Watched, probe: Probe, size: int, stack: ExitStack) -> dict[str, Any]:
    """Messages of 10 bytes in one queue; pulls at its begin, its middle and its end."""
    probe.call(topic_request("ScalePending", 1))
    batch = batch_request("ScalePending", 0, SMALL_BODY, BATCH)
    ahead(probe.connection, (batch for _ in range(size // BATCH)), most=8)
    figures: dict[str, Any] = {}
    for name, offset in (("first", 0), ("middle", size // 2), ("last", size - 32)):
        request = pull_request("ScalePending", 0, offset)
        for _ in range(20):
            probe.call(request)
        cost = probe.cost(f"pull_{name}", lambda request=request: probe.call(request), 500, 0.0)  # type: ignore[misc]
        figures |= cost
    return figures


AXES = (
    Axis("connections", "connections", (10, 100, 1_000, 10_000), _connections),
    Axis("queues", "queues", (100, 1_000, 10_000, 100_000), _queues),
    Axis("groups", "groups", (1, 10, 100, 1_000), _groups),
    Axis("pending", "pending messages in a queue", (10_000, 100_000, 1_000_000, 10_000_000), _pending),
)
PROPERTIES = {
    "mappedFileSizeCommitLog": 256 << 20,
    "mappedFileSizeConsumeQueue": 60_000,
    "registerNameServerPeriod": 10_000,
    "diskMaxUsedSpaceRatio": 95,
}
"""Registration more often than usual, so that a short look sees one."""
