from __future__ import annotations

import pytest

from orbitmq.broker.delay.timer_due import (
    BLANK_SLOTS,
    WHEEL_SLOTS,
    NotATime,
    deliver_time,
    due_time,
    place,
    rounded,
    window_slots,
)
from orbitmq.protocol.names import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS

NOW = 1_700_000_000_000
SECOND = 1_000


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        ({}, None),
        ({TIMER_DELAY_SEC: "5"}, NOW + 5_000),
        ({TIMER_DELAY_MS: "5"}, NOW + 5),
        ({TIMER_DELIVER_MS: str(NOW + 7)}, NOW + 7),
        ({TIMER_DELIVER_MS: "-1"}, -1),
        ({TIMER_DELIVER_MS: "1", TIMER_DELAY_MS: "5", TIMER_DELAY_SEC: "1"}, NOW + 1_000),
    ],
)
def test_the_first_of_three_properties_says_when(properties: dict[str, str], asked: int | None) -> None:
    assert deliver_time(properties, NOW) == asked


@pytest.mark.parametrize("text", ["", "soon", "1.5", "٣", "--1", str(1 << 63), "9" * 20])
def test_a_text_that_is_no_number_of_64_bits_is_refused(text: str) -> None:
    with pytest.raises(NotATime, match=TIMER_DELAY_MS):
        deliver_time({TIMER_DELAY_MS: text}, NOW)


def test_a_slot_holds_what_is_due_behind_its_time_up_to_the_next() -> None:
    assert rounded(NOW, SECOND) == NOW - SECOND
    assert rounded(NOW + 1, SECOND) == rounded(NOW + SECOND, SECOND) == NOW


def test_a_stored_message_is_due_to_the_millisecond_if_its_properties_fit_its_slot() -> None:
    asked = {TIMER_DELIVER_MS: str(NOW + 250)}
    assert due_time(asked, NOW, NOW, SECOND) == NOW + 250
    assert due_time(asked, NOW + SECOND, NOW, SECOND) == NOW + 2 * SECOND


@pytest.mark.parametrize("properties", [{}, {TIMER_DELAY_SEC: "soon"}])
def test_without_them_it_is_due_at_the_end_of_its_slot(properties: dict[str, str]) -> None:
    assert due_time(properties, NOW, NOW, SECOND) == NOW + SECOND


@pytest.mark.parametrize("configured", [0, 1, WHEEL_SLOTS])
def test_a_window_that_the_wheel_cannot_have_is_its_longest(configured: int) -> None:
    assert window_slots(configured, SECOND, kept_hours=1 << 20) == WHEEL_SLOTS - BLANK_SLOTS


def test_nothing_waits_longer_than_half_of_the_time_that_the_log_is_kept() -> None:
    assert window_slots(WHEEL_SLOTS, SECOND, kept_hours=48) == 24 * 3600
    assert window_slots(10, SECOND, kept_hours=48) == 10
    assert window_slots(WHEEL_SLOTS, SECOND, kept_hours=0) == 3600


def test_a_message_within_the_window_waits_in_its_own_slot() -> None:
    assert place(NOW + 9_500, NOW, 10, SECOND) == (NOW + 9_000, False)


def test_a_message_beyond_it_is_stored_again_at_the_end_of_the_window() -> None:
    assert place(NOW + 60_000, NOW, 10, SECOND) == (NOW + 10_000, True)


def test_a_message_just_beyond_it_takes_two_turns_of_about_the_same_length() -> None:
    assert place(NOW + 11_500, NOW, 10, SECOND) == (NOW + 5_000, True)
