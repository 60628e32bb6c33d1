"""Acknowledgements that come in one read: those of one pop share a record, and each has its own answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orbitmq.handling.call import Durable, Outcome, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.remoting.header_cy import encode_command, encode_success
from orbitmq.protocol.requests.pop import AckMessage
from tests.kit.pop import GROUP, Got, PopWorld, bodies
from tests.kit.real_broker import PEER


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", queues=2)
    yield world
    world.close()


def request(got: Got, **fields: Any) -> AckMessage:
    made = AckMessage(GROUP, got.topic, got.handle.queue_id, got.handle.to_text(), got.record.queue_offset)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def together(world: PopWorld, requests: Sequence[AckMessage]) -> list[Any]:
    commands = [one.to_command(opaque=number) for number, one in enumerate(requests)]
    results = world.real.many[AckMessage.CODE](commands, PEER, world.now)
    world.turn()
    return list(results)


def all_left(world: PopWorld) -> list[bytes]:
    left = []
    for _ in range(6):
        left += bodies(world.pop(invisible_time=60_000))
    return sorted(left)


def test_what_was_acknowledged_together_does_not_come_back_and_all_else_does(world: PopWorld) -> None:
    world.send(10, queue_id=0)
    world.send(10, queue_id=1)
    popped = [*world.pop(invisible_time=5_000), *world.pop(invisible_time=5_000)]
    assert len(popped) == 20
    acked = popped[::2]
    before = world.store.max_offset(TIMER_TOPIC, 0)
    results = together(world, [request(got) for got in acked])
    assert results == [encode_success(number) for number in range(len(acked))]
    assert world.store.max_offset(TIMER_TOPIC, 0) - before == 2  # one for each queue that was popped
    assert world.broker.in_flight.of(popped[0].topic, GROUP) == 10
    world.wait(12_000)
    assert all_left(world) == sorted(bodies(popped[1::2]))


def test_they_survive_a_kill(world: PopWorld) -> None:
    world.send(8)
    popped = world.pop(invisible_time=5_000)
    together(world, [request(got) for got in popped[:5]])
    world.save()
    world.restart(kill=True)
    world.wait(15_000)
    assert all_left(world) == sorted(bodies(popped[5:]))


@pytest.mark.parametrize("order", [False, True])
def test_each_gets_the_answer_that_it_would_get_alone(world: PopWorld, order: bool) -> None:
    world.send(6)
    popped = world.pop(invisible_time=5_000, order=order)
    text = popped[0].handle.to_text()
    head, _, _ = text.rpartition(" ")
    requests = [
        request(popped[0]),
        request(popped[1], offset=99),
        request(popped[2], queue_id=1),
        request(popped[2], topic="Nowhere"),
        request(popped[3], extra_info=f"{head} x"),
        request(popped[3], extra_info=f"{head} {2**70}"),
        request(popped[3], extra_info=f"{head} +3"),
        request(popped[4], extra_info=head),
        request(popped[5]),
    ]
    results = together(world, requests)
    codes = [result.code if isinstance(result, Refused) else 0 for result in results]
    illegal, failed = ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR
    assert codes == [
        0, ResponseCode.NO_MESSAGE, illegal, ResponseCode.TOPIC_NOT_EXIST, failed, failed, 0, 0, 0
    ]  # fmt: skip
    world.wait(12_000)
    left, open_ = all_left(world), sorted([popped[1].body, popped[2].body])
    # In order, what lies behind an open message comes again with it.
    assert left[:2] == open_ if order else left == open_


def test_a_request_that_cannot_be_read_costs_the_others_nothing(world: PopWorld) -> None:
    world.send(2)
    popped = world.pop(invisible_time=5_000)
    commands = [request(popped[0]).to_command(opaque=1), Command(AckMessage.CODE, 2, 0, {"topic": "x"})]
    good, bad = world.real.many[AckMessage.CODE](commands, PEER, world.now)
    assert good == encode_success(1)
    assert isinstance(bad, Refused)


def test_a_store_that_takes_nothing_is_an_answer_to_all(world: PopWorld) -> None:
    world.send(3)
    popped = world.pop(invisible_time=5_000)
    world.store.close()
    results = together(world, [request(got) for got in popped])
    assert [result.code for result in results] == [ResponseCode.SYSTEM_ERROR] * 3


def test_under_sync_flush_all_wait_for_the_disk(tmp_path: Path) -> None:
    world = PopWorld(tmp_path / "sync", {"flushDiskType": "SYNC_FLUSH"}, queues=1)
    world.send(3)
    popped = world.pop(invisible_time=5_000)
    results = together(world, [request(got) for got in popped])
    for result in results:
        assert isinstance(result, Wait)
        assert isinstance(result.on[0], Durable)
        assert result.then(Outcome(False), world.now).code == 0
    world.close()


def test_the_answer_is_what_the_codec_writes() -> None:
    for opaque in (0, 7, 77, 2**31 - 1, -1):
        assert encode_success(opaque) == encode_command(Command(0, opaque, FLAG_RESPONSE))
