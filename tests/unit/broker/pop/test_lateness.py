"""Pops of peers whose clocks are wrong, and pops that arrive too late."""

from __future__ import annotations

from orbitmq.broker.pop.lateness import begin_ms
from orbitmq.handling.call import Peer

NOW = 1_700_000_000_000
POLL_MS = 15_000
HOUR_MS = 3_600_000


def peer() -> Peer:
    return Peer(1, b"", "a peer")


def test_a_pop_begins_when_its_peer_says() -> None:
    assert begin_ms(peer(), NOW - 30, POLL_MS, NOW) == NOW - 30


def test_a_pop_whose_time_is_over_is_late() -> None:
    assert begin_ms(peer(), NOW - POLL_MS - 400, POLL_MS, NOW) is not None
    assert begin_ms(peer(), NOW - POLL_MS - 600, POLL_MS, NOW) is None


def test_a_peer_whose_clock_is_behind_gets_messages_within_a_second() -> None:
    behind = peer()
    begun = [begin_ms(behind, NOW + ms - HOUR_MS, POLL_MS, NOW + ms) for ms in range(0, 1000, 20)]
    assert begun[0] is None
    assert begun[-1] == NOW + 980
    assert begin_ms(behind, NOW + 900 - HOUR_MS, POLL_MS, NOW + 1000) == NOW + 900


def test_a_pop_is_late_by_the_clock_of_its_peer_too() -> None:
    behind = peer()
    for ms in (0, 600):
        begin_ms(behind, NOW + ms - HOUR_MS, POLL_MS, NOW + ms)
    assert begin_ms(behind, NOW - HOUR_MS, POLL_MS, NOW + POLL_MS + 2000) is None


def test_pops_that_were_held_up_together_are_late_all_of_them() -> None:
    for step_ms in (0, 300, 1000):
        held_up = peer()
        born = [NOW + number * step_ms for number in range(10)]
        begun = [
            begin_ms(held_up, one, POLL_MS, NOW + 60_000 + number * 100) for number, one in enumerate(born)
        ]
        assert begun == [None] * 10, step_ms


def test_a_peer_whose_clock_was_set_right_is_taken_at_its_word_again() -> None:
    mended = peer()
    for ms in (0, 600):
        begin_ms(mended, NOW + ms - HOUR_MS, POLL_MS, NOW + ms)
    assert begin_ms(mended, NOW + 1000, POLL_MS, NOW + 1000) == NOW + 1000
    assert begin_ms(mended, NOW + 1000, POLL_MS, NOW + 1000 + POLL_MS + 600) is None


def test_each_peer_has_a_clock_of_its_own() -> None:
    behind, other = peer(), peer()
    begin_ms(behind, NOW - HOUR_MS, POLL_MS, NOW)
    assert begin_ms(other, NOW + 600 - HOUR_MS, POLL_MS, NOW + 600) is None
    assert begin_ms(behind, NOW + 600 - HOUR_MS, POLL_MS, NOW + 600) == NOW + 600
