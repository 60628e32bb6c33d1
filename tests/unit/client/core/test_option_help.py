"""Options as `help()` shows them."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import orbitmq
from orbitmq import sync

CLASSES = ("Producer", "TransactionProducer", "PushConsumer", "PullConsumer")


@pytest.mark.parametrize("name", CLASSES)
def test_help_tells_what_every_option_means(name: str) -> None:
    kind = getattr(orbitmq, name)
    shown = pydoc.plain(pydoc.render_doc(kind))
    for row in dataclasses.fields(kind):
        if row.init:
            text = shown.split(f"\n |    {row.name}: ")[1].split("\n |  \n")[0]
            assert text.count("\n") >= 1, f"{row.name} has no meaning"


@pytest.mark.parametrize("name", CLASSES)
def test_the_blocking_form_has_the_same_arguments_and_their_meaning(name: str) -> None:
    blocking, own = getattr(sync, name), getattr(orbitmq, name)
    assert list(inspect.signature(blocking).parameters) == list(inspect.signature(own).parameters)
    options = (own.__doc__ or "").split("Options:")[1]
    assert options in (blocking.__doc__ or "")


def test_defaults_are_shown() -> None:
    assert "send_msg_timeout_ms: int = 3000\n      Timeout of one round of tries." in (
        orbitmq.Producer.__doc__ or ""
    )
