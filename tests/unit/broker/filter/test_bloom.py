"""The bits of groups are those that Apache makes, so that stores can change hands."""

from __future__ import annotations

import pytest

from orbitmq.broker.filter.bloom import BitLayout, has_all
from tests.wire.vector_files import load

CASES = load("bloom")["default"]["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["key"])
def test_positions_and_bits_are_those_of_apache(case: dict[str, object]) -> None:
    group, topic = str(case["key"]).split("#")
    layout = BitLayout(20, 32)
    positions = layout.positions(group, topic)
    assert positions == case["bitPos"]
    assert layout.bit_map([positions]).hex() == case["bits_hex"]


def test_the_size_follows_from_error_rate_and_number_of_groups() -> None:
    assert (BitLayout(20, 32).positions_per_group, BitLayout(20, 32).bit_count) == (3, 112)
    assert (BitLayout(10, 128).positions_per_group, BitLayout(10, 128).bit_count) == (4, 616)


def test_positions_of_long_names_stay_in_the_array() -> None:
    layout = BitLayout(20, 32)
    for length in range(1, 60):
        assert all(0 <= place < 112 for place in layout.positions("g" * length, "Tü"))


def test_a_message_without_all_bits_of_a_group_is_not_its() -> None:
    layout = BitLayout(20, 32)
    mine, others = layout.positions("G2", "T1"), layout.positions("G3", "T1")
    assert has_all(layout.bit_map([mine, others]), mine)
    assert not has_all(layout.bit_map([others]), mine)
    assert layout.bit_map([]) == bytes(14)
