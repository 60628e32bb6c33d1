"""Places in a program: its own frames, without those of the client, of asyncio and of Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.message import Message
from orbitmq.client.core.user_frames import frames_of_error, frames_of_stack

HERE = str(Path(__file__).relative_to(Path.cwd()))


def failing(depth: int) -> None:
    if depth:
        failing(depth - 1)
    else:
        json.loads("no JSON")


def test_the_first_and_the_last_frames_are_shown_without_those_of_libraries() -> None:
    try:
        failing(6)
    except ValueError as error:
        shown = frames_of_error(error).split(", ")
    own = test_the_first_and_the_last_frames_are_shown_without_those_of_libraries
    first = failing.__code__.co_firstlineno
    assert shown == [
        f"{HERE}:{own.__code__.co_firstlineno + 2} in {own.__name__}",
        f"{HERE}:{first + 2} in failing",
        f"{HERE}:{first + 4} in failing",
    ]


def test_an_error_of_the_client_names_the_line_that_called_it() -> None:
    with pytest.raises(InvalidArgument) as raised:
        Message("orders", 17)  # type: ignore[arg-type]
    shown = frames_of_error(raised.value)
    assert shown.startswith(f"{HERE}:")
    assert shown.endswith("in test_an_error_of_the_client_names_the_line_that_called_it")
    assert "," not in shown


def test_an_error_without_a_traceback_and_a_stack_of_nobody_have_none() -> None:
    assert frames_of_error(ValueError("never raised")) == ""
    assert frames_of_stack(None) == ""


async def test_a_stack_begins_behind_the_event_loop() -> None:
    shown = frames_of_stack(sys._getframe())
    assert shown.startswith(f"{HERE}:")
    assert shown.endswith(" in test_a_stack_begins_behind_the_event_loop")
    assert "," not in shown
