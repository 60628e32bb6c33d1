"""Bodies as objects: how they become bytes, and bytes objects again.

    from orbitmq.serializers import MsgspecSerializer

    orders = MsgspecSerializer(Order)
    await producer.send(Message.of("orders", Order("17", 3), orders, keys="17"))
    consumer.subscribe("orders", handler=bill, serializer=orders)  # bill reads message.value, an Order

A class of your own with `content_type`, `serialize` and `deserialize` is one as well (`Serializer`). The
property `contentType` of a message names the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orbitmq.client.core.serializer import CONTENT_TYPE, Serializer

if TYPE_CHECKING:
    from orbitmq.serializers.avro import AvroSerializer
    from orbitmq.serializers.msgspec_types import MsgspecSerializer
    from orbitmq.serializers.plain_json import JsonSerializer
    from orbitmq.serializers.protobuf_types import ProtobufSerializer
    from orbitmq.serializers.pydantic_types import PydanticSerializer

__all__ = [
    "CONTENT_TYPE",
    "AvroSerializer",
    "JsonSerializer",
    "MsgspecSerializer",
    "ProtobufSerializer",
    "PydanticSerializer",
    "Serializer",
]

_MODULES = {
    "AvroSerializer": "avro",
    "JsonSerializer": "plain_json",
    "MsgspecSerializer": "msgspec_types",
    "ProtobufSerializer": "protobuf_types",
    "PydanticSerializer": "pydantic_types",
}


def __getattr__(name: str) -> Any:
    """Loads a serializer, and the package that it stands on, with its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
