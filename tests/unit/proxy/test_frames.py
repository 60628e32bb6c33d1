"""Frames of HTTP/2: floods are found, and calls are left alone, however their bytes are cut."""

from __future__ import annotations

import pytest

from orbitmq.proxy.frames import CALL_COST, MOST_CREDIT, MOST_HEADER_BYTES, Frames
from tests.proxy.floods import CONTINUATION, DATA, FLOODS, HEADERS, PREFACE, RESET, frame

CALL = frame(HEADERS, 4, 1, b"h" * 200) + frame(DATA, 1, 1, b"d" * 50)


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_calls_pay_for_themselves_however_they_are_cut(step: int) -> None:
    frames = Frames(0)
    data = PREFACE + CALL * 2000
    for at in range(0, len(data), step):
        assert frames.why_not(data[at : at + step], 0) == ""


@pytest.mark.parametrize("name", FLOODS)
def test_floods_are_found_in_little_of_them(name: str) -> None:
    frames, flood = Frames(0), FLOODS[name]()
    reason, size = "", 0
    while not reason:
        data = next(flood)
        size += len(data)
        assert size < 8 << 20, f"{name}: {size} bytes, and no end of it"
        reason = frames.why_not(data, 0)
    assert ("headers" in reason) == (name in ("headers without end", "headers of great length"))


def test_a_call_that_is_reset_at_once_does_not_pay_for_itself() -> None:
    frames = Frames(0)
    reset = CALL + frame(RESET, 0, 1, bytes(4))
    assert frames.why_not(PREFACE, 0) == ""
    assert any(frames.why_not(reset * 100, 0) for _ in range(MOST_CREDIT // 100))


def test_credit_comes_back_with_time_and_with_what_a_peer_is_sent() -> None:
    empty = frame(HEADERS, 4, 1) * (MOST_CREDIT // CALL_COST)
    frames = Frames(0)
    assert frames.why_not(PREFACE + empty, 0) == ""
    assert frames.why_not(empty, MOST_CREDIT / 1000) == ""
    for _ in range(MOST_CREDIT):
        frames.sent(100)
    assert frames.why_not(empty, MOST_CREDIT / 1000) == ""
    assert frames.why_not(empty[:9], MOST_CREDIT / 1000)


def test_headers_may_be_as_long_as_said_and_no_longer() -> None:
    half = MOST_HEADER_BYTES // 2
    whole = frame(HEADERS, 0, 1, bytes(half)) + frame(CONTINUATION, 4, 1, bytes(half))
    frames = Frames(0)
    assert frames.why_not(PREFACE + whole * 2, 0) == ""
    assert frames.why_not(frame(HEADERS, 4, 1, bytes(MOST_HEADER_BYTES + 1)), 0)
