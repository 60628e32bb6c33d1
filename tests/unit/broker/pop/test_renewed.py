"""Messages that a proxy renews: the handle that their client holds counts for the newest one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from orbitmq.broker.pop import renewed
from orbitmq.broker.pop.renewed import RenewedHandles
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.requests.pop import RENEWED, AckMessage, ChangeMessageInvisibletime
from tests.kit.pop import GROUP, TOPIC, Got, PopWorld, bodies

MINUTE_MS = 60_000


def hide(world: PopWorld, got: Got, handle: PopHandle, ms: int, *, renewal: bool) -> PopHandle:
    """Hides a message as a proxy does, and gives the handle that replaces this one."""
    offset = got.record.queue_offset
    request = ChangeMessageInvisibletime(GROUP, got.topic, handle.queue_id, handle.to_text(), offset, ms)
    request.renewal = renewal or None
    reply = world.real.handle(request, world.now)
    return replace(handle, start_offset=offset, pop_time=reply.pop_time, invisible_ms=ms)


def acknowledge(world: PopWorld, got: Got) -> bool:
    """Acknowledges by the first handle; True if the broker says that it counts for a renewed message."""
    handle = got.handle
    offset = got.record.queue_offset
    request = AckMessage(GROUP, got.topic, handle.queue_id, handle.to_text(), offset)
    return RENEWED in (world.real.handle(request, world.now).extra or {})


@pytest.mark.parametrize("renewals", [1, 3])
def test_the_first_handle_acknowledges_a_message_that_was_renewed(
    make: Callable[..., PopWorld], renewals: int
) -> None:
    world = make(queues=1)
    world.send(2)
    got, other = world.pop(invisible_time=1_000)
    handle = got.handle
    for _ in range(renewals):
        handle = hide(world, got, handle, MINUTE_MS, renewal=True)
        world.wait(3_000)
    assert acknowledge(world, got)
    assert not acknowledge(world, got)
    world.wait(2 * MINUTE_MS)
    assert bodies(world.pop()) == [other.body]
    assert not world.broker.pop_acks.renewed


def test_the_first_handle_counts_no_more_once_the_client_has_another(make: Callable[..., PopWorld]) -> None:
    world = make(queues=1)
    world.send(1)
    (got,) = world.pop(invisible_time=1_000)
    handle = hide(world, got, got.handle, MINUTE_MS, renewal=True)
    hide(world, got, handle, 2_000, renewal=False)
    assert not acknowledge(world, got)
    world.wait(10_000)
    assert bodies(world.pop()) == [got.body]


def test_handles_that_are_over_or_too_many_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "MOST_RENEWED", 10)
    table = RenewedHandles()
    handle = PopHandle(0, 1_000, 500, 0, 0, "broker-a", 0, 0)
    for offset in range(100):
        given = replace(handle, queue_offset=offset)
        table.note(GROUP, TOPIC, given, replace(given, pop_time=2_000), 2_000)
    assert len(table) == 10
    assert table.newest(GROUP, TOPIC, replace(handle, queue_offset=89), 2_000) is None
    newest = table.newest(GROUP, TOPIC, replace(handle, queue_offset=99), 2_000)
    assert newest == replace(handle, queue_offset=99, pop_time=2_000)
    assert table.newest(GROUP, TOPIC, replace(handle, queue_offset=99), 2_500) is None
    for offset in range(100, 120):
        given = replace(handle, queue_offset=offset)
        table.note(GROUP, TOPIC, given, replace(given, pop_time=3_000, invisible_ms=10_000), 3_000)
        table.remove(GROUP, TOPIC, given)
    assert not table
    assert not table._given
