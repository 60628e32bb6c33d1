"""Whatever pops and acknowledgements a read brings, in any order: as frames they are served as alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.handling.call import Outcome, Wait
from orbitmq.protocol.errors import MalformedFrame, Refused
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from tests.kit.pop import GROUP, TOPIC
from tests.kit.real_broker import NOW, PEER, RealBroker, as_sent
from tests.property.reads import damaged, damages, on_lasting_brokers
from tests.property.test_acks_as_frames import ANY, IS_COMPILED, POPS, USUAL, acknowledged, filled, frame

POP = st.fixed_dictionaries(
    {"queue_id": st.sampled_from([-1, 0, 1, 2])},
    optional={
        "topic": st.sampled_from(["Nowhere", "T\u00fc"]),
        "consumer_group": st.sampled_from(["", "no/name"]),
        "max_msg_nums": st.sampled_from([1, 7, 33, 0]),
        "invisible_time": st.sampled_from([0, 500, 1 << 40]),
        "poll_time": st.sampled_from([0, -1, 1 << 62]),
        "born_time": st.sampled_from([0, NOW - 60_000]),
        "init_mode": st.sampled_from([1, 7]),
        "exp_type": st.sampled_from([None, "SQL92", "odd"]),
        "exp": st.sampled_from([None, "TagA", "Nobody", "a ="]),
        "order": st.sampled_from([True, False]),
        "attempt_id": st.just("once"),
        "flag": st.just(FLAG_ONEWAY),
    },
)
READS = st.lists(
    st.one_of(st.tuples(st.just("pop"), POP), st.tuples(st.just("ack"), st.one_of(USUAL, ANY))),
    min_size=1,
    max_size=8,
)
GROUPS = (f"Pops{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealBroker, RealBroker]]:
    with filled(tmp_path_factory.mktemp("brokers")) as pair:
        yield pair


def pop(number: int, group: str, fields: dict[str, Any]) -> bytes:
    values = {
        "consumer_group": group,
        "topic": TOPIC,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 10_000,
        "born_time": NOW,
        "init_mode": 0,
        "exp_type": "TAG",
        "exp": "*",
    }
    given = dict(fields)
    flag = given.pop("flag", 0)
    command = PopMessage(**{**values, **given}).to_command(opaque=number)
    command.flag |= flag
    return encode_command(command)


def ended(result: Any, command: Command) -> tuple[Any, Any]:
    """The answer to a call, and the time until which it was held for that; a held pop ends with its time."""
    until = 0
    if isinstance(result, Wait):
        until, result = result.deadline, result.then(Outcome(True), result.deadline)
    if isinstance(result, Exception):
        return repr(result) if not isinstance(result, Refused) else (result.code, result.remark), until
    if result is None or command.is_oneway:
        return None, until
    answer = as_sent(result, command.opaque)
    return (answer.code, answer.remark, answer.ext, answer.body), until


def one_by_one(broker: RealBroker, commands: list[Command]) -> dict[int, Any]:
    results: dict[int, Any] = {}
    for command in commands:
        results[command.opaque] = ended(broker.by_rules(command), command)
    return results


def as_frames(broker: RealBroker, data: bytes) -> tuple[dict[int, Any], int]:
    taken = broker.handle_pops(data, PEER, NOW)
    if taken is None:
        return {}, 0
    assert sum(answered for answered, _ in taken.by_code.values()) == taken.answered
    results = {
        answer.opaque: ((answer.code, answer.remark, answer.ext, answer.body), 0)
        for answer in FrameSplitter().feed(taken.answers)
    }
    assert len(results) == taken.answered
    for command, result in taken.results:
        results[command.opaque] = ended(result, command)
    return results, taken.end


@on_lasting_brokers
@given(READS, damages(900))
def test_frames_come_to_the_same_as_requests(brokers, read, damage) -> None:  # type: ignore[no-untyped-def]
    group = next(GROUPS)
    frames = [
        pop(number, group, fields) if kind == "pop" else frame(number, fields)
        for number, (kind, fields) in enumerate(read)
    ]
    data = damaged(b"".join(frames), damage)
    try:
        found, _ = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    if any(command.code not in (AckMessage.CODE, PopMessage.CODE) or command.flag & 1 for command in found):
        return
    if len({command.opaque for command in found}) < len(found):
        return
    outcomes = []
    for broker, at_once in zip(brokers, (True, False), strict=True):
        begin = broker.store.max_physical
        rules = broker.broker
        rules.in_flight.add(TOPIC, GROUP, 0, 1000)
        results, end = as_frames(broker, data) if at_once else ({}, 0)
        results |= one_by_one(broker, decode_frames(data, MAX_FRAME_BYTES, end)[0])
        outcomes.append(
            (
                results,
                acks_since(broker, begin),
                dict(rules.in_flight.by_group),
                [rules.offsets.get(group, TOPIC, queue_id) for queue_id in range(4)],
                rules.held_pops.count,
            )
        )
        rules.held_pops.connection_closed(PEER.connection_id)
        rules.in_flight.clear(TOPIC, GROUP, 0)
    assert outcomes[0] == outcomes[1]


def acks_since(broker: RealBroker, begin: int) -> Any:
    """Content of the records that are not check points, and the number of those."""
    points = sum(b'"reviveTime"' in record.body for record in broker.store.log.records(begin))
    return points, acknowledged(broker, begin, but=b'"reviveTime"')


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, acknowledgements take the general path")
def test_acknowledgements_around_pops_are_taken_with_them(brokers) -> None:  # type: ignore[no-untyped-def]
    broker = brokers[0]
    broker.read(frame(0, {"handle": POPS[0], "offset": 0}), at_once=False)  # the timers' queue is there
    acks = [frame(number, {"handle": POPS[0], "offset": number}) for number in range(1, 7)]
    parts = [
        *acks[:2],
        pop(20, "Amid", {"queue_id": 1}),
        *acks[2:5],
        pop(21, "Amid", {"queue_id": 2}),
        acks[5],
    ]
    data = b"".join(parts)
    taken = broker.handle_pops(data, PEER, NOW)
    assert taken is not None
    assert taken.end == len(data)
    assert taken.by_code == {AckMessage.CODE: (6, 0)}
    assert [command.opaque for command, _ in taken.results] == [20, 21]
    for _, reply in taken.results:
        assert reply.code == 0
        assert reply.body


def test_under_sync_flush_pops_are_left(tmp_path) -> None:  # type: ignore[no-untyped-def]
    broker = RealBroker(tmp_path / "sync", flushDiskType="SYNC_FLUSH")
    assert broker.handle_pops(pop(1, GROUP, {"queue_id": 0}), PEER, NOW) is None
    broker.close()


@pytest.mark.parametrize("fails", ["reserve", "append"])
def test_what_was_popped_leaves_whatever_fails_behind_it(  # type: ignore[no-untyped-def]
    brokers, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    broker = brokers[0]
    group = next(GROUPS)
    first = pop(20, group, {"queue_id": 0})
    works = broker.store.append

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    def append_and_fail_from_now_on(*values: Any) -> Any:
        monkeypatch.setattr(broker.store, "append", fail)
        return works(*values)

    if fails == "reserve":
        monkeypatch.setattr(broker.store.appending, "reserve", fail)
        behind = frame(21, {"handle": POPS[0], "offset": 1})
    else:
        monkeypatch.setattr(broker.store, "append", append_and_fail_from_now_on)
        behind = pop(21, group, {"queue_id": 1})
    taken = broker.handle_pops(first + behind, PEER, NOW)
    assert taken is not None
    assert taken.end == len(first)
    ((command, reply),) = taken.results
    assert command.opaque == 20
    assert reply.body


def test_what_fails_behind_pops_is_in_the_log(brokers, monkeypatch, caplog) -> None:  # type: ignore[no-untyped-def]
    broker = brokers[0]
    monkeypatch.setattr(broker.store.appending, "reserve", lambda now: 1 // 0)
    data = pop(20, next(GROUPS), {"queue_id": 0}) + frame(21, {"handle": POPS[0], "offset": 1})
    assert broker.handle_pops(data, PEER, NOW) is not None
    assert "ZeroDivisionError" in caplog.text
