from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.serializers import AvroSerializer


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *fields]}


OLD = schema()
NEW = schema({"name": "quantity", "type": "int", "default": 1})


def test_a_record_comes_back_behind_the_id_of_its_schema() -> None:
    orders = AvroSerializer({258: NEW}, schema_id=258)
    body = orders.serialize({"id": "17", "quantity": 3}, {})
    assert body == b"\x00\x00\x00\x01\x02" + b"\x0417" + b"\x06"
    assert orders.deserialize(body, {}) == {"id": "17", "quantity": 3}


def test_a_record_of_an_older_schema_is_read_as_one_of_ours() -> None:
    body = AvroSerializer({1: OLD}, schema_id=1).serialize({"id": "17"}, {})
    assert AvroSerializer({1: OLD, 2: NEW}, schema_id=2).deserialize(body, {}) == {"id": "17", "quantity": 1}


def test_a_registry_is_asked_once_for_each_schema() -> None:
    asked = []

    def registry(schema_id: int) -> dict[str, Any]:
        asked.append(schema_id)
        return OLD if schema_id == 1 else NEW

    orders = AvroSerializer(registry, schema_id=2)
    old = AvroSerializer({1: OLD}, schema_id=1).serialize({"id": "17"}, {})
    orders.deserialize(old, {})
    orders.deserialize(old, {})
    assert asked == [2, 1]


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00", b"{}", b"\x01\x00\x00\x00\x01\x0417"])
def test_a_body_without_the_id_of_a_schema_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="id of a schema"):
        AvroSerializer({1: OLD}, schema_id=1).deserialize(body, {})


def test_a_body_that_is_too_long_or_of_an_unknown_schema_is_refused() -> None:
    orders = AvroSerializer({1: OLD}, schema_id=1)
    body = orders.serialize({"id": "17"}, {})
    with pytest.raises(ValueError, match="2 bytes follow"):
        orders.deserialize(body + b"??", {})
    with pytest.raises(LookupError):
        orders.deserialize(b"\x00\x00\x00\x00\x09" + body[5:], {})


def test_the_own_schema_has_to_be_there() -> None:
    with pytest.raises(InvalidArgument, match="no schema 7"):
        AvroSerializer({1: OLD}, schema_id=7)
