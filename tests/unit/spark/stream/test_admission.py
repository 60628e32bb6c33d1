from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.spark.stream.admission import Pace, shared_out


def test_in_proportion_to_what_is_waiting() -> None:
    assert shared_out({"a": 900, "b": 90, "c": 10}, 100) == {"a": 90, "b": 9, "c": 1}
    assert shared_out({"a": 5, "b": 4}, 9) == {"a": 5, "b": 4}


def test_a_queue_with_little_is_not_starved() -> None:
    assert shared_out({"a": 100_000, "b": 1}, 100) == {"a": 99, "b": 1}


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(), st.integers(1, 1 << 40), min_size=1, max_size=20), st.integers(1, 1 << 30)
)
def test_every_share_leads_on_and_the_limit_holds(waiting: dict[int, int], limit: int) -> None:
    shares = shared_out(waiting, limit)
    assert all(1 <= shares[key] <= size for key, size in waiting.items())
    assert sum(shares.values()) < limit + len(waiting)


def test_the_first_batch_never_waits_and_the_next_one_for_enough_or_for_long_enough() -> None:
    pace = Pace(10, 1000)
    assert not pace.waits(1, 0)
    assert pace.waits(9, 999)
    assert not pace.waits(10, 999)
    assert pace.waits(1, 1998)
    assert not pace.waits(1, 1999)


def test_without_a_least_number_nothing_waits() -> None:
    pace = Pace(None, 1000)
    assert not pace.waits(1, 0)
    assert not pace.waits(1, 1)
