import pytest

from orbitmq.console.avro_values import check_values, skip_of
from tests.kit.order_schemas import avro_body

INNER = {"type": "record", "name": "Inner", "namespace": "shop", "fields": [{"name": "a", "type": "double"}]}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop",
    "fields": [
        {"name": "number", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "flag", "type": ["null", "boolean"]},
        {"name": "raw", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "inner", "type": INNER},
        {"name": "again", "type": {"type": "array", "items": "Inner"}},
        {"name": "by_name", "type": {"type": "map", "values": ["float", "string", "shop.Four"]}},
    ],
}
VALUE = {
    "number": -(1 << 40), "flag": True, "raw": b"abcd", "colour": "BLUE", "inner": {"a": 0.5},
    "again": [{"a": 1.0}, {"a": 2.0}], "by_name": {"x": "text", "y": 1.5, "z": b"efgh"},
}  # fmt: skip
VALUES = 22
"""Fields, records, items and keys of VALUE; a map's item is its key, its value, and the two together."""


def test_all_types_are_counted() -> None:
    body = avro_body(VALUE, EVERYTHING)
    check_values(skip_of(EVERYTHING), body, VALUES)
    with pytest.raises(ValueError, match="too many values"):
        check_values(skip_of(EVERYTHING), body, VALUES - 1)


def test_a_body_that_is_cut_anywhere_is_an_error() -> None:
    body = avro_body(VALUE, EVERYTHING)
    for end in range(len(body)):
        with pytest.raises(ValueError, match="ends too early"):
            check_values(skip_of(EVERYTHING), body[:end], 1000)


@pytest.mark.parametrize("body", [b"\xff" * 12, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_counts_of_blocks_are_bounded(body: bytes) -> None:
    with pytest.raises(ValueError, match="too many"):
        check_values(skip_of({"type": "array", "items": "int"}), body, 1000)


def test_a_block_with_its_size_is_counted_like_one_without() -> None:
    skip = skip_of({"type": "array", "items": "int"})
    check_values(skip, b"\x03\x04\x02\x04\x00", 3)
    with pytest.raises(ValueError, match="too many"):
        check_values(skip, b"\x03\x04\x02\x04\x00", 2)
