"""A field of a settings class is an option: its name, its type and its owner follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from orbitmq.options import Long, Settings, option
from orbitmq.options.declare import declared
from orbitmq.options.option import Option


@dataclass(kw_only=True)
class Base(Settings, owner="BrokerConfig"):
    pull_size: Long = option(32, "Messages of a pull.", unit="messages", minimum=1)


@dataclass(kw_only=True)
class Mine(Base, owner="MessageStoreConfig"):
    is_fast: bool = option(False, "Goes fast.")
    ratio: float = option(0.5, "A share.")
    root_dir: str | None = option(None, "A folder.")
    own: int = option(1, "Of another class.", owner="")
    plain: int = 0
    """No option."""


def row(name: str) -> Option:
    return {one.name: one for one in declared(Mine)}[name]


def test_name_type_and_owner_follow_from_the_field() -> None:
    found = {one.name: (one.kind, one.owner) for one in declared(Mine)}
    assert found == {
        "pullSize": ("long", "BrokerConfig"),
        "isFast": ("boolean", "MessageStoreConfig"),
        "ratio": ("double", "MessageStoreConfig"),
        "rootDir": ("String", "MessageStoreConfig"),
        "own": ("int", ""),
    }


def test_what_was_said_of_a_field_is_in_its_row() -> None:
    one = row("pullSize")
    assert (one.key, one.default, one.doc, one.unit, one.minimum) == (
        "pull_size",
        32,
        "Messages of a pull.",
        "messages",
        1,
    )


def test_a_name_that_leads_to_another_field_is_an_error_of_the_declaration() -> None:
    @dataclass(kw_only=True)
    class Wrong(Settings, owner="BrokerConfig"):
        pull_size: int = option(1, "Something.", name="pullCount")

    with pytest.raises(TypeError, match=r"Wrong.pull_size is not the option pullCount"):
        declared(Wrong)
