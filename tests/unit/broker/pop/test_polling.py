"""Held pops and notifications: who is woken, and who is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.handling.call import Peer, Wait
from orbitmq.protocol.requests.pop import Notification, PollingInfo
from tests.kit.pop import GROUP, TOPIC, Call, PopWorld, bodies
from tests.kit.real_broker import PEER

Make = Callable[..., PopWorld]
OTHER = Peer(2, PEER.host, PEER.address, PEER.version)


@pytest.fixture
def make(make: Make) -> Make:
    """Brokers with two queues unless a test asks for another number."""
    return lambda queues=2, **properties: make(queues, **properties)


def notice(world: PopWorld, poll_ms: int = 15_000, group: str = GROUP) -> Call:
    call = Call(None)
    world.took(call, world.real.handle(Notification(group, TOPIC, -1, poll_ms, world.now), world.now))
    world.calls.append(call)
    return call


def test_a_pop_is_held_until_a_message_comes(make: Make) -> None:
    world = make()
    held = world.ask_pop(poll_time=15_000)
    world.wait(3_000)
    assert held.reply is None
    world.send(1, 1)
    assert bodies(world.got(held)) == [b"m0"]
    assert world.broker.held_pops.count == 0


def test_a_pop_is_told_when_its_time_is_over(make: Make) -> None:
    world = make()
    held = world.ask_pop(poll_time=5_000)
    world.wait(4_900)
    assert held.reply is None
    world.wait(200)
    assert (held.reply.code, held.reply.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert world.broker.held_pops.count == 0


def test_a_pop_whose_time_is_long_over_is_not_looked_at(make: Make) -> None:
    world = make()
    world.send(1)
    assert world.ask_pop(born_time=world.now - 2_000, poll_time=1_000).reply.code == 210
    assert len(world.pop(born_time=world.now - 1_400, poll_time=1_000)) == 1


def test_one_message_wakes_one_pop_and_leaves_the_others_held(make: Make) -> None:
    world = make()
    first, second = world.ask_pop(poll_time=15_000), world.ask_pop(poll_time=15_000)
    world.send(1)
    assert bodies(world.got(first)) == [b"m0"]
    assert second.reply is None
    world.send(1)
    assert bodies(world.got(second)) == [b"m1"]


def test_a_pop_that_leaves_something_wakes_the_next(make: Make) -> None:
    world = make(1)
    calls = [world.ask_pop(poll_time=15_000, max_msg_nums=2) for _ in range(4)]
    messages = [(b"x%d" % i, i) for i in range(5)]
    world.store.arrivals.drain()
    for body, _ in messages:
        world.real.send(topic=TOPIC, queue_id=0, body=body)
    world.turn()
    assert [len(world.got(call)) if call.reply else None for call in calls] == [2, 2, 1, None]


def test_every_group_gets_the_message(make: Make) -> None:
    world = make()
    calls = [world.ask_pop(poll_time=15_000, consumer_group=f"G{i}") for i in range(3)]
    world.send(1)
    assert [len(world.got(call, consumer_group=f"G{i}")) for i, call in enumerate(calls)] == [1, 1, 1]


def test_a_pop_of_one_queue_is_not_woken_by_another(make: Make) -> None:
    world = make()
    held = world.ask_pop(poll_time=15_000, queue_id=1)
    world.send(1, 0)
    assert held.reply is None
    world.send(1, 1)
    assert bodies(world.got(held)) == [b"m1"]


def test_a_message_that_is_due_again_wakes_a_pop(make: Make) -> None:
    world = make()
    world.send(1)
    world.pop(invisible_time=3_000)
    held = world.ask_pop(poll_time=60_000)
    world.wait(8_000)
    assert bodies(world.got(held)) == [b"m0"]


def test_what_a_pop_does_not_want_does_not_wake_it_but_now_and_then(make: Make) -> None:
    world = make(1, popLongPollingForceNotifyInterval=5)
    world.send(1)
    world.pop()
    held = world.ask_pop(poll_time=60_000, exp="TagA", exp_type="TAG")
    world.send(3, tag="TagB")
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 1
    world.send(2, tag="TagB")
    assert held.reply is None
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 6
    world.send(1, tag="TagA")
    assert bodies(world.got(held)) == [b"m6"]


def test_no_more_are_held_than_is_allowed(make: Make) -> None:
    world = make(popPollingSize=2, maxPopPollingSize=3)
    assert all(world.ask_pop(poll_time=9_000).reply is None for _ in range(2))
    assert world.ask_pop(poll_time=9_000).reply.code == 209
    assert world.ask_pop(poll_time=9_000, consumer_group="H").reply is None
    assert world.ask_pop(poll_time=9_000, consumer_group="I").reply.code == 209
    world.wait(10_000)
    assert world.broker.held_pops.count == 0
    assert world.ask_pop(poll_time=9_000, consumer_group="I").reply is None


def test_calls_of_a_peer_that_is_gone_hold_nobody_up(make: Make) -> None:
    world = make(popPollingSize=1)
    world.ask_pop(poll_time=9_000)
    world.calls.clear()
    world.broker.connection_closed(PEER.connection_id)
    held = world.ask_pop(OTHER, poll_time=9_000)
    world.send(1)
    assert bodies(world.got(held)) == [b"m0"]
    assert (TOPIC, 0) not in world.broker.held_pops


def test_a_clock_that_is_ahead_holds_no_longer_than_was_asked(make: Make) -> None:
    world = make()
    call = world.ask_pop(born_time=world.now + 3_600_000, poll_time=5_000)
    assert isinstance(call.result, Wait)
    assert call.result.deadline == world.now + 5_000


def test_how_many_are_held_is_told(make: Make) -> None:
    world = make()
    for _ in range(3):
        world.ask_pop(poll_time=9_000)
    info = world.real.handle(PollingInfo(GROUP, TOPIC, -1), world.now)
    assert info.polling_num == 3


def test_a_notification_tells_of_messages_and_takes_none(make: Make) -> None:
    world = make()
    held = notice(world)
    assert held.reply is None
    world.send(1)
    assert (held.reply.has_msg, held.reply.polling_full) == (True, False)
    assert notice(world).reply.has_msg is True
    assert len(world.pop()) == 1
    late = notice(world, poll_ms=2_000)
    world.wait(2_100)
    assert late.reply.has_msg is False


def test_a_notification_tells_of_messages_that_are_due_again(make: Make) -> None:
    world = make()
    world.send(1)
    world.pop(invisible_time=2_000)
    held = notice(world)
    world.wait(6_000)
    assert held.reply.has_msg is True


def test_too_many_notifications(make: Make) -> None:
    world = make(popPollingSize=1)
    notice(world)
    assert (notice(world).reply.has_msg, notice(world).reply.polling_full) == (False, True)
