"""The owner of a prefix: the first group that writes it, for as long as its text stays."""

from __future__ import annotations

import pytest

from orbitmq.server.controller.consensus import ForeignStore, StoreWiped
from orbitmq.server.controller.identity import PrefixIdentity


def identity(group: str = "east") -> PrefixIdentity:
    return PrefixIdentity(group, store="etcd", prefix="/p/", key="key /p/identity", if_new="it is new")


def test_the_same_text_is_taken_again_and_another_of_the_group_means_a_wiped_store() -> None:
    own = identity()
    text = own.new_text()
    own.check(text)
    own.check(text)
    assert own.text == text
    with pytest.raises(StoreWiped, match="it is new"):
        own.check(own.new_text())
    assert own.text == text


def test_a_prefix_of_another_group_is_refused() -> None:
    with pytest.raises(ForeignStore, match="belongs to the controllers of 'east', not of 'west'"):
        identity("west").check(identity("east").new_text())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "1"])
def test_a_text_that_no_controller_wrote_is_refused(text: str) -> None:
    with pytest.raises(ForeignStore, match="the key /p/identity in etcd is not of a controller"):
        identity().check(text)
