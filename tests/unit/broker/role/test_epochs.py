"""Epochs of a log: their file, and the part that two logs have in common."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.role.epochs import BadEpochs, Epochs
from orbitmq.protocol.epoch_replication import Epoch

VECTORS = Path(__file__).parents[3] / "wire" / "vectors" / "ha_and_timer.json"
VECTOR = json.loads(VECTORS.read_text())["epoch_file"]


@st.composite
def epochs(draw: st.DrawFn) -> Epochs:
    rows = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5000)), max_size=10))
    made, number, start = Epochs(), 0, 0
    for step, size in rows:
        number, start = number + step, start + size
        made.append(Epoch(number, start))
    return made


def test_the_file_is_that_of_apaches_broker() -> None:
    read = Epochs.from_text(VECTOR["content"])
    assert [f"{entry.number}-{entry.start}" for entry in read.entries] == VECTOR["entries"]
    assert read.to_text() == VECTOR["content"]


@given(epochs())
def test_what_is_written_is_read_again(written: Epochs) -> None:
    assert Epochs.from_text(written.to_text()).entries == written.entries


@given(epochs(), st.data())
def test_a_damaged_file_is_noticed(written: Epochs, data: st.DataObject) -> None:
    text = written.to_text()
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.sampled_from("0123456789-\n")) + text[at + 1 :]
    try:
        read = Epochs.from_text(changed)
    except BadEpochs:
        return
    assert read.entries == written.entries


@pytest.mark.parametrize("text", ["", "\n", "x\ny\n", "1\n5\n", "2\n0\n1-0\n", "0\n1\n", json.dumps([])])
def test_other_texts_are_no_epochs(text: str) -> None:
    with pytest.raises(BadEpochs):
        Epochs.from_text(text)


@pytest.mark.parametrize("entry", [Epoch(2, 200), Epoch(1, 200), Epoch(3, 99), Epoch(2, 100)])
def test_an_epoch_comes_behind_the_last_one(entry: Epoch) -> None:
    with pytest.raises(BadEpochs, match="cannot follow"):
        Epochs([Epoch(1, 0), Epoch(2, 100)]).append(entry)


def test_a_place_in_the_log_has_an_epoch_and_its_end() -> None:
    log = Epochs([Epoch(1, 10), Epoch(2, 100), Epoch(3, 100), Epoch(4, 250)])
    assert log.at(0) == (Epoch(1, 10), 100), "a log older than its first epoch counts to it"
    assert log.at(99) == (Epoch(1, 10), 100)
    assert log.at(100) == (Epoch(3, 100), 250), "epoch 2 has no bytes"
    assert log.at(9999) == (Epoch(4, 250), None)
    with pytest.raises(BadEpochs):
        Epochs().at(0)


def test_epochs_behind_a_cut_are_forgotten() -> None:
    log = Epochs([Epoch(1, 0), Epoch(2, 100), Epoch(3, 250)])
    assert log.truncate(100)
    assert log.entries == [Epoch(1, 0)]
    assert not log.truncate(50)


@pytest.mark.parametrize(
    ("mine", "my_end", "theirs", "their_end", "common"),
    [
        ([(1, 0)], 80, [(1, 0)], 200, 80),
        ([(1, 0)], 200, [(1, 0)], 80, 80),
        ([(1, 0)], 150, [(1, 0), (2, 120)], 300, 120),
        ([(1, 0), (2, 100)], 180, [(1, 0), (3, 140)], 300, 100),
        ([(1, 0), (2, 100)], 180, [(1, 0), (2, 100), (3, 170)], 300, 170),
        ([(1, 0), (2, 100)], 100, [(1, 0), (3, 100)], 100, 100),
        ([(1, 0), (2, 100)], 180, [(1, 0), (2, 90)], 300, 90),
        ([(1, 0)], 80, [(2, 0)], 200, None),
        ([(1, 0)], 80, [], 0, None),
    ],
)
def test_two_logs_are_the_same_up_to_the_end_of_the_last_common_epoch(
    mine: list[tuple[int, int]],
    my_end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    common: int | None,
) -> None:
    log = Epochs(Epoch(*row) for row in mine)
    assert log.common_end(my_end, [Epoch(*row) for row in theirs], their_end) == common


@given(epochs(), st.integers(0, 60_000), st.lists(st.integers(1, 4000), max_size=4), st.data())
def test_a_log_that_went_another_way_is_cut_where_it_parted(
    shared: Epochs, more: int, reigns: list[int], data: st.DataObject
) -> None:
    if not shared.entries:
        return
    parting = shared.entries[-1].start + more
    mine, theirs = Epochs(shared.entries), Epochs(shared.entries)
    ends = [parting, parting]
    number = shared.last
    for size in reigns:
        number += 1
        side = data.draw(st.integers(0, 1))
        (mine, theirs)[side].append(Epoch(number, ends[side]))
        ends[side] += size
    assert mine.common_end(ends[0], theirs.entries, ends[1]) == parting
