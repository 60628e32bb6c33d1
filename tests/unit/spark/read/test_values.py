from __future__ import annotations

import pytest

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.values import boolean, count, nearest, span_ms, time_ms, unknown


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("30", 30_000),
        ("15 m", 900_000),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_a_span_has_a_unit_or_is_in_seconds(text: str, ms: int) -> None:
    assert span_ms({"span": text}, "span", default_ms=1) == ms


@pytest.mark.parametrize("text", ["", "1w", "-1s", "1.5s", "s", "٣s"])
def test_any_other_span_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BadOption, match="span like 500ms"):
        span_ms({"span": text}, "span", default_ms=1)


def test_what_is_not_set_has_its_default() -> None:
    assert span_ms({}, "x", default_ms=7) == 7
    assert boolean({}, "x", default=True) is True
    assert count({}, "x") is None
    assert time_ms({}, "x") is None


def test_numbers_and_words_are_read() -> None:
    assert count({"x": "12"}, "x") == 12
    assert boolean({"x": "FALSE"}, "x", default=True) is False
    assert time_ms({"x": "0"}, "x") == 0


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "", "٣"])
def test_a_count_is_a_whole_number_above_0(text: str) -> None:
    with pytest.raises(BadOption, match="x has to be a whole number above 0"):
        count({"x": text}, "x")


def test_other_words_than_true_and_false_and_other_times_are_refused() -> None:
    with pytest.raises(BadOption, match="x is true or false, not 'yes'"):
        boolean({"x": "yes"}, "x", default=False)
    with pytest.raises(BadOption, match="milliseconds since 1970"):
        time_ms({"x": "2027-01-01"}, "x")


def test_an_unknown_option_comes_with_the_nearest_one_or_the_one_that_is_meant() -> None:
    assert "unknown option subscripe; did you mean subscribe? Options: subscribe, tags" in str(
        unknown("subscripe", ["subscribe", "tags"])
    )
    assert "did you mean namesrv?" in str(unknown("servers", ["namesrv"], meant="namesrv"))
    assert nearest("zzz", ["subscribe"]) == ""
