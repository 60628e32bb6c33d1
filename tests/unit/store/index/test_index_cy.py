"""The compiled parts of the index on files that are not what they say."""

from __future__ import annotations

import pytest

from orbitmq.store.index import index_cy

HEADER, SLOT, ENTRY = 40, 4, 20
SLOTS, ENTRIES = 8, 3


def test_a_file_that_is_cut_is_refused_before_it_is_changed() -> None:
    whole = HEADER + SLOTS * SLOT + ENTRIES * ENTRY
    assert index_cy.link_slots(bytearray(whole), SLOTS, ENTRIES) == 1
    cut = bytearray(whole - 1)
    with pytest.raises(IndexError):
        index_cy.link_slots(cut, SLOTS, ENTRIES)
    assert not any(cut)
