from __future__ import annotations

import pytest

from orbitmq.protocol.records.hashing import INT32_MIN, index_hash, java_hash

SMALLEST = "polygenelubricants"
"""A word whose hash in Java is the smallest number of 32 bits."""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("TagA", 2598919),
        ("Aa", 2112),
        ("BB", 2112),
        ("ä", 0xE4),
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
        (SMALLEST, INT32_MIN),
    ],
)
def test_a_hash_is_that_of_java_over_its_units_of_16_bits(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_half_of_a_surrogate_pair_has_a_hash_as_in_java() -> None:
    assert java_hash("\ud83d") == 0xD83D


def test_the_hash_in_an_index_is_never_negative() -> None:
    negative = "topic#key-1"
    while java_hash(negative) >= 0:
        negative += "x"
    assert index_hash(negative) == -java_hash(negative) > 0
    assert index_hash(SMALLEST) == 0
