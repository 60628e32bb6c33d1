from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.serializers import MsgspecSerializer


class Order(msgspec.Struct):
    id: str
    quantity: int


@pytest.mark.parametrize(
    ("format", "content_type"), [("json", "application/json"), ("msgpack", "application/msgpack")]
)
def test_a_struct_comes_back(format: Any, content_type: str) -> None:
    orders = MsgspecSerializer(Order, format)
    assert orders.content_type == content_type
    assert orders.deserialize(orders.serialize(Order("17", 3), {}), {}) == Order("17", 3)


def test_a_body_is_validated() -> None:
    with pytest.raises(msgspec.ValidationError, match="int"):
        MsgspecSerializer(Order).deserialize(b'{"id": "17", "quantity": "many"}', {})


def test_another_format_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="json or msgpack"):
        MsgspecSerializer(Order, "yaml")  # type: ignore[arg-type]
