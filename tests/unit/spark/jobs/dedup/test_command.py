"""The command `orbitmq job dedup`: its flags. `test_bad_jobs` has those that do not go together."""

from __future__ import annotations

import click
import pytest

from orbitmq.spark.jobs.dedup.command import duration


@pytest.mark.parametrize(
    ("given", "ms"), [("90s", 90_000), ("6h", 21_600_000), ("2 d", 172_800_000), ("5ms", 5)]
)
def test_durations(given: str, ms: int) -> None:
    assert duration(None, None, given) == ms


@pytest.mark.parametrize("bad", ["", "1", "h", "0s", "-1s", "1 week"])
def test_no_durations(bad: str) -> None:
    with pytest.raises(click.BadParameter):
        duration(None, None, bad)


def test_a_window_of_more_than_ten_years_is_a_mistake() -> None:
    assert duration(None, None, "3650d") == 3650 * 86_400_000
    with pytest.raises(click.BadParameter, match="ten years"):
        duration(None, None, "3651d")
