"""Reads of a connection in which one byte may be another one."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import Phase, settings
from hypothesis import strategies as st

on_lasting_brokers = settings(phases=[Phase.explicit, Phase.generate])
"""For tests whose examples share their brokers. Once those differ, each example fails, so none shrinks."""

Damage: TypeAlias = tuple[int, int] | None
"""A place and what is there instead."""


def without_repeats(properties: str) -> str:
    """The properties, each name once.

    Of a name that is there twice the general path stores the last entry alone, as Apache does; the fast paths
    store what was sent, which readers take for the same.
    """
    seen: set[str] = set()
    entries = []
    for entry in properties.split("\x02"):
        name = entry.partition("\x01")[0]
        if not entry or name not in seen:
            entries.append(entry)
        seen.add(name)
    return "\x02".join(entries)


def damages(within: int) -> st.SearchStrategy[Damage]:
    """No damage, or one behind the first length, up to a place: often what JSON and numbers are made of."""
    return st.none() | st.tuples(st.integers(8, within), st.sampled_from(list(b'\x00 "\\{}:,-09ae\xff')))


def damaged(data: bytes, damage: Damage) -> bytes:
    """The read with its damage, if that is within it."""
    if damage is None or damage[0] >= len(data):
        return data
    place, instead = damage
    return data[:place] + bytes((instead,)) + data[place + 1 :]
