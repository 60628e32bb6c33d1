import pytest

from orbitmq.delay_service.rules.repeats import Time, caught_up, following
from orbitmq.delay_service.store.records import Repeat


def times(repeat, first=0, most=20):
    found, time = [], Time(first, 1)
    while time is not None and len(found) < most:
        found.append(time.due)
        time = following(repeat, time)
    return found


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [
        (Repeat(every_ms=1500, times=4), [0, 1500, 3000, 4500]),
        (Repeat(every_ms=2000, until=5000), [0, 2000, 4000]),
        (Repeat(every_ms=2000, until=4000), [0, 2000, 4000]),
        (Repeat(every_ms=1000, factor=2.0, times=4), [0, 1000, 3000, 7000]),
        (Repeat(base_s=2, times=4), [0, 2000, 6000, 14_000]),
        (Repeat(base_s=300, times=4), [0, 300_000, 86_700_000, 173_100_000]),
        (Repeat(cron="*/2 * * * * *", times=3), [0, 2000, 4000]),
    ],
)
def test_times_of_a_repetition(repeat, expected):
    assert times(repeat) == expected


def test_a_growing_interval_ends_with_the_year_9999():
    found = times(Repeat(every_ms=1, factor=1000.0), most=10_000)
    assert len(found) == 6


def test_of_missed_times_the_last_one_comes():
    repeat = Repeat(every_ms=1000, times=50)
    assert caught_up(repeat, Time(0, 1), 10_500) == Time(10_000, 11)
    assert caught_up(repeat, Time(0, 1), 999) == Time(0, 1)
    assert caught_up(repeat, Time(0, 1), 10**9) == Time(49_000, 50)
    assert caught_up(Repeat(every_ms=1000, until=3500), Time(0, 1), 10**9) == Time(3000, 4)
    assert caught_up(Repeat(cron="*/2 * * * * *"), Time(0, 4), 9000) == Time(8000, 4)
    assert caught_up(Repeat(every_ms=1000, factor=2.0), Time(0, 1), 8000) == Time(7000, 4)


def test_missed_times_may_all_come_or_none():
    assert caught_up(Repeat(every_ms=1000, catch_up="all"), Time(0, 1), 10_500) == Time(0, 1)
    none = Repeat(every_ms=3_600_000, catch_up="none")
    assert caught_up(none, Time(0, 1), 5000) == Time(0, 1)
    assert caught_up(none, Time(0, 1), 60_000) == Time(3_600_000, 2)
    assert caught_up(Repeat(every_ms=1000, times=3, catch_up="none"), Time(0, 1), 10**9) is None


def test_a_million_missed_times_are_counted_at_once():
    assert caught_up(Repeat(every_ms=1), Time(0, 1), 10**12) == Time(10**12, 10**12 + 1)
