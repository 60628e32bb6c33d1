import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.times import LAST_MS, after, parse_span, parse_time, rfc_3339


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("-1000", -1000),
        ("253402300799999", LAST_MS),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01.5z", 1500),
        ("1970-01-01T02:00:00.123456789+02:00", 123),
        ("1969-12-31T12:00:00-12:00", 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
    ],
)
def test_a_time_is_ms_or_rfc_3339(text, expected):
    assert parse_time("delay.at", text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "NaN", "1e3", "253402300800000", "10000-01-01T00:00:00Z", "2031-01-01T00:00:00",
     "2031-02-30T00:00:00Z", "9999-12-31T23:59:59-01:00", "2031-01-01T00:00:00+24:00",
     "9" * 5000, "١٢٣", "2031-01-01T25:00:00Z"],
)  # fmt: skip
def test_other_texts_are_refused_with_a_short_reason(text):
    with pytest.raises(NotSchedulable, match=r"^delay\.at: ") as refused:
        parse_time("delay.at", text)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1500", 1500),
        ("7ms", 7),
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("30d", 2_592_000_000),
    ],
)
def test_spans(text, expected):
    assert parse_span("delay.after", text) == expected


@pytest.mark.parametrize(
    "text", ["", "-5s", "5 fortnights", "nan", "1.5s", "99999999999999999999d", "5S", "٣s"]
)
def test_other_spans_are_refused(text):
    with pytest.raises(NotSchedulable):
        parse_span("delay.after", text)


def test_a_span_ends_before_the_year_10000():
    assert after("delay.after", 5, 7) == 12
    with pytest.raises(NotSchedulable):
        after("delay.after", LAST_MS, 1)


def test_a_time_is_shown_as_it_is_read():
    assert rfc_3339(parse_time("x", "2030-01-31T12:00:00.250Z")) == "2030-01-31T12:00:00.250Z"
