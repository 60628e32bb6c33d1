"""Reads of a connection in which one byte may be another one."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st

Damage: TypeAlias = tuple[int, int] | None
"""A place and what is there instead."""


def damages(within: int) -> st.SearchStrategy[Damage]:
    """No damage, or one behind the first length, up to a place: often what JSON and numbers are made of."""
    return st.none() | st.tuples(st.integers(8, within), st.sampled_from(list(b'\x00 "\\{}:,-09ae\xff')))


def damaged(data: bytes, damage: Damage) -> bytes:
    """The read with its damage, if that is within it."""
    if damage is None or damage[0] >= len(data):
        return data
    place, instead = damage
    return data[:place] + bytes((instead,)) + data[place + 1 :]
