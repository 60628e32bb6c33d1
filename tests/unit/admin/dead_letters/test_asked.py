"""Choices for a redrive, and their way into a journal and back."""

from __future__ import annotations

import pytest

from orbitmq.admin.dead_letters.asked import Asked, BadRequest, edit_of
from orbitmq.admin.dead_letters.dead_letter import Cause, Place
from orbitmq.admin.dead_letters.outgoing import Edit


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0},
        {"rate": 1e9},
        {"to": "elsewhere"},
        {"max_replays": 0},
        {"places": (Place("b", 0, 0),) * 1001},
        {"places": (Place("b", 0, 0),), "cause": Cause(None, "E", None)},
        {"edit": Edit(b"new")},
    ],
)
def test_what_cannot_be_asked_for_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        Asked(**wrong)  # type: ignore[arg-type]


def test_what_is_asked_for_comes_back_from_the_journal() -> None:
    asked = Asked(places=(Place("b", 1, 2),), to="retry", edit=Edit(b"\xff", "t", "", {"a": "b"}))
    assert Asked.from_json(asked.as_json()) == asked
    asked = Asked(cause=Cause(None, "E", None), rate=2.5, max_replays=9, again=True)
    assert Asked.from_json(asked.as_json()) == asked


def test_the_body_of_an_edit_comes_as_base64() -> None:
    assert edit_of("_w==".replace("_", "/"), "t", None, None) == Edit(b"\xff", "t", None, None)
    assert edit_of(None, None, "k", {"a": "b"}) == Edit(None, None, "k", {"a": "b"})
    with pytest.raises(BadRequest, match="base64"):
        edit_of("not base64!", None, None, None)
