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


@pytest.mark.parametrize(
    ("held", "entry"), [(0, 1), (41, 1), (60, 1), (200, 9), (200, -3), (200, -(1 << 60))]
)
def test_an_index_file_that_is_too_short_for_its_slots(held: int, entry: int) -> None:
    with pytest.raises((IndexError, ValueError)):
        index_cy.put_entries(bytearray(held), 10, entry, [7], 0, 0)
    good = bytearray(200)
    assert index_cy.put_entries(good, 10, 1, [7], 0, 0) == 1


def test_a_chain_in_a_file_that_is_cut_is_refused_as_one() -> None:
    whole = bytearray(HEADER + SLOTS * SLOT + ENTRIES * ENTRY)
    index_cy.put_entries(whole, SLOTS, 1, [7], 100, 0)
    index_cy.put_entries(whole, SLOTS, 2, [7], 200, 1)
    assert index_cy.first_entry(whole, SLOTS, 7) == 2
    assert index_cy.find_entries(whole, SLOTS, ENTRIES, 7, 0, 9, 9, 2, 9) == ([200, 100], 0)
    with pytest.raises(IndexError):
        index_cy.find_entries(whole[:-1], SLOTS, ENTRIES, 7, 0, 9, 9, 2, 9)
    for slots, key_hash in ((SLOTS, -1), (1000, 999)):
        with pytest.raises(IndexError):
            index_cy.first_entry(whole, slots, key_hash)
