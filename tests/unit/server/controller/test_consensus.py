"""Changes of a commit go to the store in parts that it takes."""

from __future__ import annotations

from orbitmq.server.controller.consensus import parts


def test_parts_keep_to_both_bounds_and_to_the_order() -> None:
    changes = {f"k{number}": "x" * 10 for number in range(5)}
    assert [list(part) for part in parts(changes, 2, 1000)] == [["k0", "k1"], ["k2", "k3"], ["k4"]]
    assert [list(part) for part in parts(changes, 100, 25)] == [["k0", "k1"], ["k2", "k3"], ["k4"]]


def test_a_change_larger_than_a_part_goes_alone() -> None:
    changes = {"a": "x" * 100, "b": None, "c": None}
    assert [list(part) for part in parts(changes, 100, 50)] == [["a"], ["b", "c"]]


def test_no_changes_are_no_parts() -> None:
    assert list(parts({}, 10, 10)) == []
