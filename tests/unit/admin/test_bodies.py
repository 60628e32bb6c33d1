"""Bodies as they are shown: inflated as far as needed, within a budget, or with the reason."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest

from orbitmq.admin.bodies import (
    BEGINNING_BYTES,
    COUNTED_BYTES,
    BodyBudget,
    BodyTooLarge,
    ShownBody,
    plain,
    plain_as_far,
)
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.message import COMPRESSED
from tests.kit.client_messages import stored

TEXT = b"some text, " * 100


def shown(body: bytes, most: int | None = None, budget: BodyBudget | None = None) -> ShownBody:
    message = stored(0, zlib.compress(body), sys_flag=COMPRESSED)
    return (budget or BodyBudget()).shown(message, most)


def test_bodies_are_shown_whole_or_cut() -> None:
    assert shown(TEXT) == ShownBody(TEXT, len(TEXT), False)
    assert shown(TEXT, 10) == ShownBody(TEXT[:10], len(TEXT), True)
    assert shown(TEXT, len(TEXT)) == ShownBody(TEXT, len(TEXT), False)
    assert shown(b"") == ShownBody(b"", 0, False)
    assert BodyBudget(1, 1).shown(stored(0, TEXT), 10) == ShownBody(TEXT[:10], len(TEXT), True)


def test_of_a_large_body_only_the_beginning_is_inflated() -> None:
    large = zlib.compress(TEXT + bytes(16 << 20))
    tracemalloc.start()
    try:
        found = BodyBudget().shown(stored(0, large, sys_flag=COMPRESSED), 10)
        assert found == ShownBody(TEXT[:10], None, True)
        assert tracemalloc.get_traced_memory()[1] < 2 * COUNTED_BYTES
    finally:
        tracemalloc.stop()


def test_a_body_above_the_maximum_names_the_option() -> None:
    found = shown(bytes(1001), None, BodyBudget(1000))
    assert found.problem is not None
    assert found.problem.kind == "tooLarge"
    assert (
        "inflates to more than 1000 bytes: --max-inflated-body-bytes sets this maximum" in found.problem.text
    )
    assert (found.is_cut, found.size) == (True, None)
    assert shown(bytes(1000), None, BodyBudget(1000)).problem is None


def test_the_bodies_of_an_answer_have_a_budget_together() -> None:
    budget = BodyBudget(1 << 20, 100_000)
    assert [shown(bytes(60_000), None, budget).problem is None for _ in range(3)] == [True, False, False]
    assert budget.is_spent
    spent = shown(TEXT, None, budget)
    assert spent.problem is not None
    assert (spent.problem.kind, spent.data) == ("budget", b"")
    assert "look the message up by itself" in spent.problem.text
    assert budget.shown(stored(0, TEXT)).problem is None


def test_a_damaged_body_is_shown_as_it_is_stored() -> None:
    found = BodyBudget().shown(stored(0, b"no zlib", sys_flag=COMPRESSED))
    assert found.problem is not None
    assert (found.data, found.problem.kind) == (b"no zlib", "damaged")
    assert len(BodyBudget().shown(stored(0, bytes(1 << 20), sys_flag=COMPRESSED)).data) == BEGINNING_BYTES


def test_sizes_are_counted_without_the_memory() -> None:
    message = stored(0, zlib.compress(bytes(8 << 20)), sys_flag=COMPRESSED)
    tracemalloc.start()
    try:
        assert BodyBudget().size_of(message) == 8 << 20
        assert BodyBudget(1000).size_of(message) is None
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


async def test_one_message_is_made_plain_or_the_reason_is_raised() -> None:
    message = stored(0, zlib.compress(bytes(1000)), sys_flag=COMPRESSED)
    whole = await plain(message, 1000)
    assert (whole.body, whole.sys_flag) == (bytes(1000), 0)
    with pytest.raises(BodyTooLarge, match="--max-inflated-body-bytes"):
        await plain(message, 999)
    with pytest.raises(CompressionError):
        await plain(stored(0, b"no zlib", sys_flag=COMPRESSED), 999)


async def test_of_several_the_others_are_made_plain_and_a_warning_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    large = stored(0, zlib.compress(bytes(2000)), sys_flag=COMPRESSED, UNIQ_KEY="LARGE")
    small = stored(1, zlib.compress(b"small"), sys_flag=COMPRESSED)
    found = await plain_as_far([large, small], 1000)
    assert found == [large, small.with_body(b"small")]
    assert "message LARGE: the body" in caplog.text
