"""Records rendered from a template equal those made in full, whatever numbers and names a pop has."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.pop import templates as pop_templates
from orbitmq.broker.pop.records import ReviveRecords
from orbitmq.broker.pop.templates import RECORDS_PER_TEMPLATE, RecordTemplates
from orbitmq.broker.pop.timers import TimerQueue
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.names import MAX_GROUP_CHARACTERS, MAX_RETRY_TOPIC_CHARACTERS
from orbitmq.protocol.records.properties import BadProperty
from orbitmq.store import PendingMessage

NOW = 1_795_000_000_000
HOST = bytes(8)
NAMES = st.one_of(
    st.sampled_from(
        ["Topic", "%RETRY%G+T", "%(so)d", "%d", "", 'a"\\b', "\u00fc", "\ud800", "a\x01b", "a\x02b"]
    ),
    # Numbers that templates are made and tried with.
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
    """Each with a template from the first one on."""
    return ReviveRecords("Cluster", HOST, TimerQueue(precision_ms), RecordTemplates(records_per_template=1))


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
    wanted = made(ours.full_ack, handle, group, topic, offsets, NOW)
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
    wanted = made(ours.full_check_point, point, revive_queue_id, NOW)
    for _ in range(2):
        assert made(ours.check_point, point, revive_queue_id, NOW) == wanted


@pytest.fixture
def in_full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups of the acknowledgements that are made in full."""
    groups: list[str] = []
    make = ReviveRecords.full_ack

    def noted(ours: Any, handle: PopHandle, group: str, *others: Any) -> PendingMessage:
        groups.append(group)
        return make(ours, handle, group, *others)

    monkeypatch.setattr(ReviveRecords, "full_ack", noted)
    return groups


HANDLE = PopHandle(5, NOW, 60_000, 1, 0, "broker-a", 3)


def test_records_with_the_same_names_are_soon_not_made_in_full(in_full: list[str]) -> None:
    ours = ReviveRecords("Cluster", HOST, TimerQueue(1000))
    for _ in range(RECORDS_PER_TEMPLATE):
        ours.ack(HANDLE, "G", "T", [7], NOW)
    wanted = ours.full_ack(dataclasses.replace(HANDLE, start_offset=40), "G", "T", [41], NOW)
    in_full.clear()
    assert ours.ack(dataclasses.replace(HANDLE, start_offset=40), "G", "T", [41], NOW) == wanted
    assert in_full == []


@pytest.mark.parametrize("in_turn", [True, False])
def test_more_names_than_templates_cost_little_more_than_records_in_full(
    monkeypatch: pytest.MonkeyPatch, in_full: list[str], in_turn: bool
) -> None:
    monkeypatch.setattr(pop_templates, "MOST_TEMPLATES", 16)
    ours = ReviveRecords("Cluster", HOST, TimerQueue(1000))
    chance = random.Random(1)
    for number in range(5000):
        ours.ack(HANDLE, f"G{number % 48 if in_turn else chance.randrange(48)}", "T", [7], NOW)
    assert len(in_full) < 5000 * 1.05


def test_a_name_that_comes_often_gets_its_template_among_those_that_come_once(
    monkeypatch: pytest.MonkeyPatch, in_full: list[str]
) -> None:
    monkeypatch.setattr(pop_templates, "MOST_TEMPLATES", 16)
    ours = ReviveRecords("Cluster", HOST, TimerQueue(1000))
    for number in range(20_000):
        ours.ack(HANDLE, "G" if number % 2 else f"G{number}", "T", [7], NOW)
    assert in_full.count("G") < 10_000 * 0.2


def test_long_names_are_not_kept() -> None:
    ours = records(1000)
    tracemalloc.start()
    try:
        for number in range(50):
            ours.ack(HANDLE, "G", f"{number:0100000}", [7], NOW)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000


def test_the_longest_legal_names_have_a_template(in_full: list[str]) -> None:
    ours = records(1000)
    group, topic = "g" * MAX_GROUP_CHARACTERS, "t" * MAX_RETRY_TOPIC_CHARACTERS
    ours.ack(HANDLE, group, topic, [7], NOW)
    in_full.clear()
    ours.ack(HANDLE, group, topic, [8], NOW)
    assert in_full == []
