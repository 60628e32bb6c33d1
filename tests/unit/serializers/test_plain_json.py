from __future__ import annotations

import pytest

from orbitmq.client.core.message import Message
from orbitmq.serializers import JsonSerializer


def test_a_value_comes_back() -> None:
    value = {"id": "17", "items": [1, 2.5, None, True], "städte": "Köln"}
    json = JsonSerializer()
    assert json.deserialize(json.serialize(value, {}), {}) == value


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        JsonSerializer().serialize(float("nan"), {})
    with pytest.raises(ValueError, match="Expecting"):
        JsonSerializer().deserialize(b"{", {})


def test_a_message_names_the_format_beside_what_it_has_itself() -> None:
    message = Message.of("orders", {"id": 1}, JsonSerializer(), keys="1", properties={"source": "shop"})
    assert message.body == b'{"id":1}'
    assert message.keys == ("1",)
    assert message.properties == {"source": "shop", "contentType": "application/json"}
