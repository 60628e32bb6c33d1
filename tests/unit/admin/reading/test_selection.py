import asyncio
import tracemalloc
import zlib
from dataclasses import replace

import pytest

from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.reading.selection import Selected, Selection
from orbitmq.broker.filter.sql92 import BadExpression
from orbitmq.protocol.records.compression import PIECE_BYTES
from orbitmq.protocol.records.message import COMPRESSED, StoredMessage
from orbitmq.protocol.records.properties import encode_properties

PROPERTIES = encode_properties({"TAGS": "hot", "KEYS": "k1 k2", "price": "7", "note": "Grüße"})
HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
MESSAGE = StoredMessage("t", b"Some Body", PROPERTIES, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, 0, 100)


@pytest.mark.parametrize(
    ("given", "selected"),
    [
        ({}, True),
        ({"tag": "cold || hot"}, True),
        ({"tag": "cold"}, False),
        ({"tag": "*"}, True),
        ({"sql": "price > 5"}, True),
        ({"sql": "price > 5 AND TAGS = 'cold'"}, False),
        ({"text": "some b"}, True),
        ({"text": "GRÜSSE"}, False),
        ({"text": "GRÜßE"}, True),
        ({"text": "nowhere"}, False),
        ({"tag": "hot", "text": "nowhere"}, False),
        ({"key": "k2"}, True),
        ({"key": "k"}, False),
        ({"key": "k1", "tag": "cold"}, False),
    ],
)
def test_all_that_is_given_has_to_hold(given: dict[str, str], selected: bool) -> None:
    assert bool(selected_of(MESSAGE, **given).messages) is selected


def selected_of(message: StoredMessage, budget: BodyBudget | None = None, **given: str) -> Selected:
    return asyncio.run(Selection(**given).select([message], budget or BodyBudget()))


@pytest.mark.parametrize(
    ("given", "selected"),
    [
        ({"text": "body"}, False),
        ({"text": "covered"}, True),
        ({"sql": "price = 7"}, False),
        ({"sql": "price <> '7'"}, True),
        ({"sql": "price = '***'", "text": "covered"}, True),
    ],
)
def test_text_and_filter_are_for_the_message_as_its_reader_sees_it(
    given: dict[str, str], selected: bool
) -> None:
    def seen(message: StoredMessage, _: BodyBudget) -> StoredMessage:
        return replace(message, body=b"covered", properties=encode_properties({"price": "***"}))

    found = asyncio.run(Selection(**given, seen=seen).select([MESSAGE], BodyBudget()))
    assert found.messages == ([MESSAGE] if selected else [])


def packed(body: bytes) -> StoredMessage:
    return replace(MESSAGE, body=zlib.compress(body), sys_flag=COMPRESSED)


def test_compressed_bodies_are_looked_into_and_broken_ones_do_no_harm() -> None:
    compressed = packed(b"a needle")
    assert selected_of(compressed, text="needle").messages == [compressed]
    broken = replace(compressed, body=b"needle, not deflated \xff")
    assert selected_of(broken, text="NEEDLE").messages == [broken]
    other = selected_of(broken, text="other")
    assert (other.messages, other.unread) == ([], 1)


@pytest.mark.parametrize("text", ["Needle", "nÄdel", "Ж"])
def test_a_text_is_found_across_the_pieces_of_a_body(text: str) -> None:
    for before in range(PIECE_BYTES - 10, PIECE_BYTES + 3):
        body = b"\xff" + b"." * before + text.encode() + b"\xfe" * PIECE_BYTES
        for message in (packed(body), replace(MESSAGE, body=body, properties=b"")):
            assert selected_of(message, text=text.swapcase()).messages, before


def test_a_body_is_searched_in_pieces_up_to_the_maximum() -> None:
    large = packed(bytes(32 << 20) + b"needle")
    tracemalloc.start()
    try:
        found = selected_of(large, BodyBudget(16 << 20), text="needle")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (found.messages, found.unread) == ([], 1)
    assert "--max-inflated-body-bytes" in found.reason
    early = packed(b"needle" + bytes(32 << 20))
    assert selected_of(early, BodyBudget(16 << 20), text="needle").messages == [early]


def test_without_a_text_nothing_is_inflated() -> None:
    budget = BodyBudget(1, 0)
    broken = replace(MESSAGE, body=b"no zlib", sys_flag=COMPRESSED)
    assert selected_of(broken, budget, tag="hot") == Selected([broken])


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(BadExpression):
        Selection(sql="price >")
