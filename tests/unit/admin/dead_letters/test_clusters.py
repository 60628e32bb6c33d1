from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from orbitmq.admin.dead_letters.clusters import MAX_CLUSTERS, SAMPLED, Clusters
from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place


def letter(cause: str, number: int = 0, *, at: int = 1, reason: str = "", replays: int = 0) -> DeadLetter:
    message: Any = SimpleNamespace(store_timestamp=at)
    return DeadLetter(Place("b", 0, number), Cause("orders", cause, None), reason, replays, message)


def test_letters_of_a_cause_are_counted_and_the_largest_come_first() -> None:
    clusters = Clusters()
    clusters.add(letter("KeyError"))
    for number in range(3):
        clusters.add(letter("ValueError", number, replays=number))
    first, second = clusters.listed()
    assert (first.cause.exception, first.count, first.resent, first.most_replays) == ("ValueError", 3, 2, 2)
    assert (second.cause.exception, second.count) == ("KeyError", 1)


def test_the_reason_is_that_of_the_newest_letter_in_whatever_order_they_are_read() -> None:
    clusters = Clusters()
    for at, reason in ((20, "newest"), (5, "oldest"), (10, "between")):
        clusters.add(letter("E", at=at, reason=reason))
    [only] = clusters.listed()
    assert (only.reason, only.oldest_ms, only.newest_ms) == ("newest", 5, 20)


def test_places_are_a_sample_of_those_read_last() -> None:
    clusters = Clusters()
    for number in range(SAMPLED + 5):
        clusters.add(letter("E", number))
    [only] = clusters.listed()
    assert [place.queue_offset for place in only.places] == list(range(5, SAMPLED + 5))


def test_the_number_of_causes_is_bounded_and_the_rest_is_counted() -> None:
    clusters = Clusters()
    for number in range(MAX_CLUSTERS + 7):
        clusters.add(letter(f"E{number}"))
    clusters.add(letter("E0"))
    assert len(clusters.listed()) == MAX_CLUSTERS
    assert clusters.beyond == 7
    assert clusters.listed()[0].count == 2
