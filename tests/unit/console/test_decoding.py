import json
from typing import Any

import pytest

from orbitmq.console.decoding import BadSchema, Schema, UndecodableBody, decoder_of
from tests.kit.order_schemas import ORDER, avro_body, avro_schema, protobuf_body, protobuf_schema

HEAD = b"\0\0\0\0\7"
"""Bytes that serializers of a schema registry put before a body."""


def schema_of(fields: dict[str, Any]) -> Schema:
    return Schema(fields["kind"], fields["text"], fields.get("messageType", ""))


def avro(schema: Any) -> Schema:
    return Schema("avro", json.dumps(schema))


def test_avro_bodies_become_json_with_and_without_a_registrys_head() -> None:
    decode = decoder_of(schema_of(avro_schema()))
    assert json.loads(decode(avro_body())) == ORDER
    assert json.loads(decode(HEAD + avro_body())) == ORDER
    starts_with_zero = avro_body({**ORDER, "id": 0})
    assert json.loads(decode(starts_with_zero))["id"] == 0


def test_protobuf_bodies_become_json_with_and_without_a_registrys_head() -> None:
    decode = decoder_of(schema_of(protobuf_schema()))
    assert json.loads(decode(protobuf_body())) == ORDER
    assert json.loads(decode(HEAD + b"\0" + protobuf_body())) == ORDER


@pytest.mark.parametrize(
    "body", [b"", b"\xff" * 40, b"{}", b"\0" * 300, b"\x02" + b"\xfe\xff\xff\xff\x0f" * 4]
)
def test_bodies_that_are_not_of_the_schema_are_errors(body: bytes) -> None:
    with pytest.raises(UndecodableBody):
        decoder_of(schema_of(avro_schema()))(body)
    if body.startswith((b"\xff", b"{")):
        with pytest.raises(UndecodableBody):
            decoder_of(schema_of(protobuf_schema()))(body)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema("avro", '{"type": "record",\n "name" "x"}'), "line 2, column 9"),
        (avro({"type": "record", "name": "x", "fields": [{"name": "a", "type": "money"}]}), "named money"),
        (avro({"type": "array", "items": "null"}), "without bytes"),
        (avro({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}), "without bytes"),
        (
            avro(
                {
                    "type": "record",
                    "name": "Tree",
                    "fields": [{"name": "left", "type": ["null", "Tree"]}],
                }
            ),
            "contains itself",
        ),
        (Schema("protobuf", "no base64!", "shop.Order"), "not base64"),
        (Schema("protobuf", "////", "shop.Order"), "no FileDescriptorSet"),
        (Schema("protobuf", protobuf_schema()["text"], "shop.Basket"), "there are: shop.Order"),
    ],
)
def test_schemas_that_are_none_or_dangerous_are_refused_with_the_place(schema: Schema, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        decoder_of(schema)


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels: int) -> Any:
    """A record that has two of the one before it: few characters, and 2**levels fields."""
    schema: Any = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    return schema


def chained(levels: int) -> Any:
    """A record beside others that each have the one before it: the schema is flat, and its values are not."""
    fields: list[Any] = [{"name": "f0", "type": {"type": "record", "name": "r0", "fields": []}}]
    for level in range(1, levels):
        inner = [{"name": "a", "type": f"r{level - 1}"}]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"r{level}", "fields": inner}})
    return {"type": "record", "name": "all", "fields": fields}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        *((nested(300), "levels deep"), (nested(40), "levels deep"), (chained(40), "levels deep")),
        (doubling(20), "fields"),
    ],
)
def test_schemas_that_are_too_deep_or_too_large_are_refused(schema: Any, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        decoder_of(avro(schema))


def test_a_body_of_few_bytes_and_very_many_fields_is_refused_before_it_is_decoded() -> None:
    fields = [{"name": "a", "type": "int"}, *({"name": f"n{one}", "type": "null"} for one in range(999))]
    decode = decoder_of(
        avro({"type": "array", "items": {"type": "record", "name": "wide", "fields": fields}})
    )
    assert len(json.loads(decode(b"\x02\x00\x00"))[0]) == 1000
    with pytest.raises(UndecodableBody, match="too many values"):
        decode(b"\x80\x80\x40" + b"\x00" * (1 << 20))


def test_a_named_type_may_be_used_again() -> None:
    money = {"type": "fixed", "name": "Money", "size": 4}
    pair = [{"name": "net", "type": money}, {"name": "gross", "type": "Money"}]
    schema = {"type": "record", "name": "Bill", "fields": pair}
    body = avro_body({"net": b"\0\0\0\1", "gross": b"\0\0\0\2"}, schema)
    assert json.loads(decoder_of(avro(schema))(body)) == {"net": "0x00000001", "gross": "0x00000002"}
