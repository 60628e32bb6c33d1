from __future__ import annotations

from orbitmq.broker.pop.in_flight import InFlight

BOOT = 1_000


def test_messages_count_from_their_pop_until_their_acknowledgement() -> None:
    counts = InFlight(BOOT)
    counts.add("T", "G", 0, 3)
    counts.add("T", "G", 1, 2)
    counts.add("T", "H", 0, 1)
    counts.subtract("T", "G", 0, BOOT + 1)
    counts.subtract("T", "G", 1, BOOT + 1, 2)
    assert counts.of("T", "G") == counts.of("T", "G", 0) == 2
    assert counts.of("T", "G", 1) == 0
    assert counts.of("T", "H") == 1


def test_acknowledgements_of_pops_before_the_start_change_nothing() -> None:
    counts = InFlight(BOOT)
    counts.add("T", "G", 0, 1)
    counts.subtract("T", "G", 0, BOOT - 1)
    assert counts.of("T", "G") == 1


def test_more_acknowledgements_than_pops_leave_no_debt() -> None:
    counts = InFlight(BOOT)
    counts.add("T", "G", 0, 1)
    for _ in range(3):
        counts.subtract("T", "G", 0, BOOT)
    counts.add("T", "G", 0, 1)
    assert counts.of("T", "G") == 1


def test_after_it_forgets_only_later_pops_count() -> None:
    counts = InFlight(BOOT)
    counts.add("T", "G", 0, 5)
    counts.forget(BOOT + 100)
    assert counts.of("T", "G") == 0
    counts.add("T", "G", 0, 1)
    counts.subtract("T", "G", 0, BOOT + 50)
    assert counts.of("T", "G") == 1


def test_a_removed_group_is_counted_no_more() -> None:
    counts = InFlight(BOOT)
    counts.add("T", "G", 0, 5)
    counts.add("T", "H", 0, 5)
    counts.remove(lambda topic, group: group == "G")
    assert list(counts.by_group) == [("T", "H")]
