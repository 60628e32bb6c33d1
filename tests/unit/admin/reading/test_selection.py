import zlib
from dataclasses import replace

import pytest

from orbitmq.admin.reading.selection import Selection
from orbitmq.broker.filter.sql92 import BadExpression
from orbitmq.protocol.records.message import COMPRESSED, StoredMessage
from orbitmq.protocol.records.properties import encode_properties

PROPERTIES = encode_properties({"TAGS": "hot", "price": "7", "note": "Grüße"})
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
    ],
)
def test_all_that_is_given_has_to_hold(given: dict[str, str], selected: bool) -> None:
    assert (Selection(**given).select(MESSAGE) is not None) is selected


def test_compressed_bodies_are_looked_into_and_broken_ones_do_no_harm() -> None:
    compressed = replace(MESSAGE, body=zlib.compress(b"a needle"), sys_flag=COMPRESSED)
    found = Selection(text="needle").select(compressed)
    assert found is not None
    assert found.body == b"a needle"
    broken = replace(compressed, body=b"needle, not deflated \xff")
    assert Selection(text="NEEDLE").select(broken) == broken
    assert Selection(text="other").select(broken) is None


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(BadExpression):
        Selection(sql="price >")
