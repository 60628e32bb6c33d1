"""Delay levels as an option writes them."""

import pytest

from orbitmq.protocol.delay_levels import delays_ms


def test_delays_have_units() -> None:
    assert delays_ms("1s 2m  3h 1d") == (1000, 120_000, 10_800_000, 86_400_000)


@pytest.mark.parametrize("text", ["1", "s", "1x", "-1s", "1.5s"])
def test_other_delays_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="messageDelayLevel"):
        delays_ms(text)
