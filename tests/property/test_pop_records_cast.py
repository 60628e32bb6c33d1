"""Whatever numbers and names a pop has: its records cast from a mould are those made in full."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker import pop_moulds
from orbitmq.broker.pop_moulds import Moulds
from orbitmq.broker.pop_records import ReviveRecords
from orbitmq.broker.pop_timers import TimerQueue
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.pop import PopHandle
from orbitmq.protocol.properties import BadProperty
from orbitmq.store import PendingMessage

NOW = 1_795_000_000_000
HOST = bytes(8)
NAMES = st.one_of(
    st.sampled_from(
        ["Topic", "%RETRY%G+T", "%(so)d", "%d", "", 'a"\\b', "\u00fc", "\ud800", "a\x01b", "a\x02b"]
    ),
    # Numbers that moulds are made and tried with.
    st.sampled_from(["755555502", "799999905,788888806", "2", "411222222222222207", "14,17"]),
    st.text(max_size=8),
)
NUMBERS = st.one_of(st.integers(0, 40), st.integers(0, (1 << 62) - 1))
TIMES = st.one_of(st.integers(NOW - 2000, NOW + 2000), st.integers(0, 1 << 61))
SPANS = st.one_of(st.integers(1, 70_000), st.integers(0, 1 << 61))
QUEUE_IDS = st.integers(0, 1 << 31)
OFFSETS = st.lists(NUMBERS, max_size=5)
PRECISIONS = st.sampled_from([1, 100, 1000])


def records(precision_ms: int) -> ReviveRecords:
    return ReviveRecords("Cluster", HOST, TimerQueue(precision_ms))


def made(make: Any, *values: Any) -> PendingMessage | str:
    try:
        made: PendingMessage = make(*values)
    except BadProperty as error:
        return str(error)
    return made


@given(
    st.builds(
        PopHandle, NUMBERS, TIMES, SPANS, QUEUE_IDS, st.integers(0, 2), NAMES, QUEUE_IDS, st.integers(-1, 9)
    ),
    NAMES,
    NAMES,
    OFFSETS,
    PRECISIONS,
)
def test_an_acknowledgement_is_the_one_made_in_full(
    handle: PopHandle, group: str, topic: str, offsets: list[int], precision_ms: int
) -> None:
    ours = records(precision_ms)
    wanted = made(ours._full_ack, handle, group, topic, offsets, NOW)
    for _ in range(2):
        assert made(ours.ack, handle, group, topic, offsets, NOW) == wanted


@given(
    st.builds(
        PopCheckPoint,
        start_offset=NUMBERS,
        pop_time=TIMES,
        invisible_time=SPANS,
        bit_map=st.integers(0, 3),
        num=st.integers(0, 32),
        queue_id=QUEUE_IDS,
        topic=NAMES,
        cid=NAMES,
        revive_offset=NUMBERS,
        queue_offset_diff=st.one_of(st.none(), st.lists(st.integers(0, 1 << 31), max_size=5)),
        broker_name=NAMES,
        re_put_times=st.sampled_from([None, None, "2"]),
    ),
    QUEUE_IDS,
    PRECISIONS,
)
def test_a_check_point_is_the_one_made_in_full(
    point: PopCheckPoint, revive_queue_id: int, precision_ms: int
) -> None:
    ours = records(precision_ms)
    wanted = made(ours._full_check_point, point, revive_queue_id, NOW)
    for _ in range(2):
        assert made(ours.check_point, point, revive_queue_id, NOW) == wanted


def test_a_record_with_the_same_names_is_not_made_in_full_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = records(1000)
    handle = PopHandle(5, NOW, 60_000, 1, 0, "broker-a", 3)
    ours.ack(handle, "G", "T", [7], NOW)
    wanted = ours._full_ack(dataclasses.replace(handle, start_offset=40), "G", "T", [41], NOW)
    monkeypatch.delattr(ReviveRecords, "_full_ack")
    assert ours.ack(dataclasses.replace(handle, start_offset=40), "G", "T", [41], NOW) == wanted


def test_moulds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_moulds, "MOST_MOULDS", 3)
    ours = records(1000)
    for number in range(9):
        ours.ack(PopHandle(5, NOW, 60_000, 1, 0, f"broker-{number}", 3), "G", "T", [7], NOW)
    moulds = ours._moulds
    assert isinstance(moulds, Moulds)
    assert len(moulds._by_names) == 3
