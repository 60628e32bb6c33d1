from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from orbitmq.protocol.handles.recall import MalformedHandle, RecallHandle

HANDLE = RecallHandle("orders", "broker-a", 1_700_000_000_001, "A" * 32)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_read_back_with_and_without_its_padding() -> None:
    assert RecallHandle.decode(HANDLE.encode()) == HANDLE
    assert RecallHandle.decode(HANDLE.encode().rstrip("=")) == HANDLE


def test_parts_behind_the_known_ones_are_passed_over() -> None:
    assert RecallHandle.decode(encoded("v1 T b 7 ID more")) == ("T", "b", 7, "ID")


@pytest.mark.parametrize("time", ["", "soon", "-1", "٣", "9" * 19])
def test_a_time_that_is_no_number_is_known_as_such(time: str) -> None:
    assert RecallHandle.decode(encoded(f"v1 T b {time} ID")).time_ms == -1


@pytest.mark.parametrize(
    "text",
    ["", "ä", "%%%%", "A", encoded("v2 T b 7 ID"), encoded("v1 T b 7"), encoded("v1 T b 7 "), "_____w=="],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedHandle):
        RecallHandle.decode(text)
