from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, ValidationError

from orbitmq.serializers import PydanticSerializer


class Order(BaseModel):
    order_id: str = Field(alias="orderId")
    quantity: int


def test_a_model_comes_back_by_its_aliases() -> None:
    orders = PydanticSerializer(Order)
    order = Order(orderId="17", quantity=3)
    body = orders.serialize(order, {})
    assert body == b'{"orderId":"17","quantity":3}'
    assert orders.deserialize(body, {}) == order


def test_a_list_of_models_comes_back() -> None:
    orders = PydanticSerializer(list[Order])
    many = [Order(orderId=str(number), quantity=number) for number in range(3)]
    assert orders.deserialize(orders.serialize(many, {}), {}) == many


def test_a_body_is_validated() -> None:
    with pytest.raises(ValidationError, match="quantity"):
        PydanticSerializer(Order).deserialize(b'{"orderId": "17", "quantity": "many"}', {})
