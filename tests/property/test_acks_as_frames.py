"""Whatever acknowledgements a read brings, damaged ones too: as frames they come to the same as alone."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.pop import acks_cy
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.handles.pop import ORDER_REVIVE_QUEUE, PopHandle
from orbitmq.protocol.remoting.command import FLAG_ONEWAY
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames, encode_success
from orbitmq.protocol.requests.pop import AckMessage
from tests.kit.pop import GROUP, TOPIC, PopWorld, bodies
from tests.kit.real_broker import NOW, PEER, RealBroker, two_brokers
from tests.property.reads import damaged, damages, on_lasting_brokers

IS_COMPILED = not acks_cy.__file__.endswith(".py")
compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="interpreted, all take the general path")

MESSAGES = 40
POPS = (
    PopHandle(0, NOW - 500, 60_000, 0, 0, "broker-a", 0),
    PopHandle(8, NOW - 400, 60_000, 3, 0, "broker-a", 1),
)
"""Most acknowledgements are of one of these."""

USUAL = st.builds(
    lambda pop, offset: {"handle": POPS[pop], "offset": offset}, st.integers(0, 1), st.integers(0, MESSAGES)
)
ANY = st.fixed_dictionaries(
    {"handle": st.sampled_from(POPS), "offset": st.integers(0, MESSAGES)},
    optional={
        "topic": st.sampled_from([TOPIC, "Nowhere", "T\u00fc", 'a"b']),
        "group": st.sampled_from(["Other", "", "g\\1", "923456789012345678", "g" * 300]),
        "queue_id": st.sampled_from([0, 1, 3, -1, 1 << 33]),
        "odd_offset": st.sampled_from([-1, MESSAGES + 1, 1 << 40, 1 << 62, 1 << 70]),
        "odd_handle": st.sampled_from(
            [
                PopHandle(0, NOW - 500, 60_000, ORDER_REVIVE_QUEUE, 0, "broker-a", 0),
                PopHandle(0, NOW - 500, 60_000, 8, 0, "broker-a", 0),
                PopHandle(0, NOW - 500, 400, 1, 0, "broker-a", 0),
                PopHandle(0, NOW - 500, 501, 1, 0, "broker-a", 0),
                PopHandle(1 << 62, (1 << 62) - 7, 60_000, 1, 2, "x", 1),
                PopHandle(0, NOW - 500, 60_000, 1, 1, "\u00fc", 0),
            ]
        ),
        "last": st.sampled_from(["", " ", " x", " +3", " 3 4", " 9223372036854775808", " 07"]),
        "flag": st.just(FLAG_ONEWAY),
    },
)
READS = st.one_of(st.lists(USUAL, min_size=1, max_size=12), st.lists(ANY, min_size=1, max_size=5))


@contextlib.contextmanager
def filled(folder: Path, **properties: object) -> Iterator[tuple[RealBroker, RealBroker]]:
    with two_brokers(folder, **properties) as pair:
        for broker in pair:
            for _ in range(1, MESSAGES):
                for queue_id in range(2):
                    broker.send(queue_id=queue_id)
        yield pair


with_and_without_checksum = pytest.fixture(
    scope="module", params=[False, True], ids=["as they are", "with a checksum at the end"]
)


@with_and_without_checksum
def brokers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[RealBroker, RealBroker]]:
    with filled(tmp_path_factory.mktemp("brokers"), enabledAppendPropCRC=request.param) as pair:
        yield pair


@with_and_without_checksum
def alike(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[RealBroker, RealBroker]]:
    """Two whose logs stay alike."""
    with filled(tmp_path_factory.mktemp("alike"), enabledAppendPropCRC=request.param) as pair:
        # The timers' queue is there from now on.
        for broker in pair:
            broker.read(frame(1, {"handle": POPS[0], "offset": 0}), at_once=False)
        yield pair


def frame(number: int, fields: dict[str, Any]) -> bytes:
    handle = fields.get("odd_handle", fields["handle"])
    offset = fields.get("odd_offset", fields["offset"])
    text = handle.to_text() + fields.get("last", f" {offset}")
    queue_id = fields.get("queue_id", handle.queue_id)
    request = AckMessage(fields.get("group", GROUP), fields.get("topic", TOPIC), queue_id, text, offset)
    command = request.to_command(opaque=number)
    command.flag |= fields.get("flag", 0)
    return encode_command(command)


def acknowledged(broker: RealBroker, begin: int, but: bytes | None = None) -> Counter[tuple[object, ...]]:
    """Content of the records from a place in the log on, however many share one. Not those that hold
    `but`."""
    said: Counter[tuple[object, ...]] = Counter()
    for record in broker.store.log.records(begin):
        if but is not None and but in record.body:
            continue
        body = json.loads(record.body)
        offsets = body.pop("aol", None) or [body["ao"]]
        del body["ao"]
        properties = record.property_map()
        # Of the record as a whole: each has its own.
        assert (properties.pop("__CRC32#", None) is not None) == broker.store.options.enabled_append_prop_crc
        assert properties.pop("UNIQ_KEY").endswith("@ack")
        assert properties.pop("TAGS") in ("ack", "bAck")
        for offset in offsets:
            said[record.topic, record.queue_id, str(body), str(properties), offset] += 1
    return said


@on_lasting_brokers
@given(READS, damages(900))
def test_frames_come_to_the_same_as_requests(brokers, read, damage) -> None:  # type: ignore[no-untyped-def]
    data = damaged(b"".join(frame(number, fields) for number, fields in enumerate(read)), damage)
    try:
        found, _ = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    if any(command.code != AckMessage.CODE or command.flag & 1 for command in found):
        return
    outcomes = []
    for broker, at_once in zip(brokers, (True, False), strict=True):
        begin = broker.store.max_physical
        rules = broker.broker
        rules.in_flight.add(TOPIC, GROUP, 0, 1000)
        answers = broker.read(data, NOW, at_once=at_once)
        outcomes.append((answers, acknowledged(broker, begin), dict(rules.in_flight.by_group)))
        rules.in_flight.clear(TOPIC, GROUP, 0)
    assert outcomes[0] == outcomes[1]


def in_both_ways(alike: tuple[RealBroker, RealBroker], data: bytes, now: int = NOW) -> None:
    """As frames, and as requests of one read: the log has to be the same, byte for byte."""
    logs = []
    for broker, at_once in zip(alike, (True, False), strict=True):
        begin = broker.store.max_physical
        if at_once:
            taken = broker.handle_acks(data, PEER, now)
            assert taken is not None
            assert taken.end == len(data)
            answers = taken.answers
        else:
            commands, _ = decode_frames(data, MAX_FRAME_BYTES)
            answers = b"".join(broker.many[AckMessage.CODE](commands, PEER, now))  # type: ignore[arg-type]
        records = [
            (one.topic, one.queue_id, one.queue_offset, one.sys_flag, one.born_timestamp, one.born_host,
             one.store_host, one.body, one.body_crc, one.properties, one.physical_offset - begin, one.size)
            for one in broker.store.log.records(begin)
        ]  # fmt: skip
        logs.append((answers, records, list(broker.store.arrivals.drain()), broker.broker.points.stored))
    assert logs[0] == logs[1]


@compiled_only
@on_lasting_brokers
@given(st.lists(USUAL, min_size=1, max_size=70))
def test_the_usual_ones_make_the_same_records(alike, read) -> None:  # type: ignore[no-untyped-def]
    in_both_ways(alike, b"".join(frame(number, fields) for number, fields in enumerate(read)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path_factory.mktemp("world") / "store", queues=1)
    yield world
    world.close()


@on_lasting_brokers
@given(st.sets(st.integers(0, 7)))
def test_what_is_acknowledged_does_not_come_back_and_all_else_does(world: PopWorld, acked: set[int]) -> None:
    world.send(8)
    popped = world.pop(invisible_time=5_000)
    assert len(popped) == 8
    requests = [
        AckMessage(GROUP, popped[i].topic, 0, popped[i].handle.to_text(), popped[i].record.queue_offset)
        for i in sorted(acked)
    ]
    data = b"".join(encode_command(one.to_command(opaque=number)) for number, one in enumerate(requests))
    answers = world.real.read(data, world.now) if data else {}
    assert {code for code, _, _ in answers.values()} <= {0}
    assert len(answers) == len(acked)
    world.turn()
    assert world.broker.in_flight.of(popped[0].topic, GROUP) == 8 - len(acked)
    world.wait(12_000)
    left = []
    while again := world.pop(invisible_time=60_000):
        left += again
        for got in again:
            world.ack(got)
    assert sorted(bodies(left)) == sorted(got.body for i, got in enumerate(popped) if i not in acked)


@compiled_only
def test_under_sync_flush_the_answers_wait_for_the_disk(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path / "sync", flushDiskType="SYNC_FLUSH")
    broker.broker.topics.put(TopicConfig(TOPIC, 4, 4, 6), NOW)
    broker.broker.topics.note_saved()
    broker.send(queue_id=0)
    broker.store.flushing.flush_now()
    data = frame(1, {"handle": POPS[0], "offset": 0})
    broker.read(data, at_once=False)  # the timers' queue is there from now on
    taken = broker.handle_acks(data, PEER, NOW)
    assert taken is not None
    assert taken.durable == broker.store.max_physical
    assert taken.deadline > NOW
    assert taken.late(taken.answers) == taken.answers == encode_success(1)
    broker.close()


@compiled_only
def test_a_pop_whose_check_point_is_in_memory_is_left(tmp_path: Path) -> None:
    world = PopWorld(tmp_path / "kept", {"enablePopBufferMerge": True}, queues=1)
    world.send(2)
    first, second = world.pop(invisible_time=60_000)
    assert world.broker.points.kept == 1
    for got in (first, second):
        fields = {"handle": got.handle, "offset": got.record.queue_offset, "last": ""}
        assert world.real.handle_acks(frame(0, fields), PEER, world.now) is None
        world.ack(got)
    assert world.broker.points.kept == 0
    world.close()
