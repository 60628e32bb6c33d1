from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.cron import check_cron, last_time, next_time

BERLIN = "Europe/Berlin"


def at(*parts, zone=BERLIN, fold=0):
    return int(datetime(*parts, tzinfo=ZoneInfo(zone), fold=fold).timestamp()) * 1000


def test_a_first_time_may_be_the_start_itself():
    start = at(2026, 5, 1, 9, 0)
    assert check_cron("0 9 * * *", BERLIN, start) == start
    assert check_cron("0 9 * * *", BERLIN, start + 1) == at(2026, 5, 2, 9, 0)


def test_six_fields_have_seconds_first():
    assert next_time("*/2 * * * * *", "UTC", 10_000) == 12_000
    assert next_time("*/2 * * * * *", "UTC", 11_999) == 12_000


def test_a_time_that_the_clocks_leave_out_comes_at_the_end_of_the_gap():
    assert next_time("30 2 * * *", BERLIN, at(2026, 3, 28, 12, 0)) == at(2026, 3, 29, 3, 0)


def test_fixed_hours_come_once_where_the_clocks_go_back():
    first = next_time("30 2 * * *", BERLIN, at(2026, 10, 24, 12, 0))
    assert first == at(2026, 10, 25, 2, 30)
    assert next_time("30 2 * * *", BERLIN, first) == at(2026, 10, 26, 2, 30)
    assert last_time("30 2 * * *", BERLIN, 0, at(2026, 10, 25, 12, 0)) == first


@pytest.mark.parametrize("expression", ["@daily", "@Midnight", "0 0 * * *"])
def test_a_day_begins_once_where_the_clocks_go_back_to_midnight(expression):
    zone = "America/Havana"
    first = next_time(expression, zone, at(2026, 10, 31, 12, 0, zone=zone))
    assert first == at(2026, 11, 1, 0, 0, zone=zone)
    assert next_time(expression, zone, first) == at(2026, 11, 2, 0, 0, zone=zone)
    assert next_time("@hourly", zone, first) == first + 3_600_000


def test_every_hour_comes_in_both_hours_where_the_clocks_go_back():
    first = at(2026, 10, 25, 2, 0)
    assert next_time("0 * * * *", BERLIN, first) == first + 3_600_000


def test_the_last_time_may_be_now():
    assert last_time("*/2 * * * * *", "UTC", 0, 12_000) == 12_000
    assert last_time("*/2 * * * * *", "UTC", 0, 13_999) == 12_000
    assert last_time("*/2 * * * * *", "UTC", 12_000, 13_999) is None


def test_the_last_time_of_a_rare_expression_is_found_at_once():
    assert last_time("0 0 29 2 *", "UTC", 0, at(2027, 6, 1, zone="UTC")) == at(2024, 2, 29, zone="UTC")


@pytest.mark.parametrize(
    ("expression", "zone"),
    [("every day", "UTC"), ("0 0 30 2 *", "UTC"), ("61 99 * * *", "UTC"), ("* * * * *", "Mars/Olympus"),
     ("* * * * *", "../etc/passwd"), ("* * * * *", "Europe"), ("R * * * *", "UTC"), ("H H * * *", "UTC"),
     ("* * * * * * 2030", "UTC"), ("", "UTC"), ("* " * 500, "UTC"), ("*/0 * * * *", "UTC")],
)  # fmt: skip
def test_expressions_that_never_come_are_refused(expression, zone):
    with pytest.raises(NotSchedulable):
        check_cron(expression, zone, 0)
