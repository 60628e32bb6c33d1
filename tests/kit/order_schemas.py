"""One kind of order in Avro and in Protobuf: schemas, and bodies by them."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

ORDER = {"id": 7, "customer": "Ann 安", "items": ["tea", "cup"]}
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}


def avro_schema() -> dict[str, Any]:
    """The body of a request that sets the Avro schema."""
    return {"kind": "avro", "text": json.dumps(AVRO)}


def avro_body(value: Any = ORDER, schema: Any = AVRO) -> bytes:
    """A value in Avro's binary form."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def protobuf_schema() -> dict[str, Any]:
    """The body of a request that sets the Protobuf schema."""
    text = base64.b64encode(_descriptors().SerializeToString()).decode()
    return {"kind": "protobuf", "text": text, "messageType": "shop.Order"}


def protobuf_body() -> bytes:
    """The same order in Protobuf."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in _descriptors().file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    body: bytes = kind(**ORDER).SerializeToString()
    return body


def _descriptors() -> Any:
    from google.protobuf import descriptor_pb2

    fields = descriptor_pb2.FieldDescriptorProto
    order = descriptor_pb2.DescriptorProto(name="Order")
    optional, repeated = fields.LABEL_OPTIONAL, fields.LABEL_REPEATED
    order.field.add(name="id", number=1, type=fields.TYPE_INT32, label=optional)
    order.field.add(name="customer", number=2, type=fields.TYPE_STRING, label=optional)
    order.field.add(name="items", number=3, type=fields.TYPE_STRING, label=repeated)
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", message_type=[order]
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])
