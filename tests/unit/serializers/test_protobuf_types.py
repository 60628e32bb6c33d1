from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import UninterpretedOption
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import StringValue

from orbitmq.client.core.errors import DeserializationFailed, InvalidArgument
from orbitmq.client.core.message import Message
from orbitmq.client.producer.producer import Producer
from orbitmq.serializers import ProtobufSerializer
from orbitmq.sync import FIRST_OFFSET, PushConsumer
from orbitmq.testing import Isolated


def test_a_message_comes_back_from_its_own_bytes() -> None:
    times = ProtobufSerializer(Timestamp)
    body = times.serialize(Timestamp(seconds=17, nanos=3), {})
    assert body == Timestamp(seconds=17, nanos=3).SerializeToString()
    assert times.deserialize(body, {}) == Timestamp(seconds=17, nanos=3)


def test_bytes_of_something_else_are_refused() -> None:
    with pytest.raises(DecodeError):
        ProtobufSerializer(StringValue).deserialize(b"\x0a\xff", {})


def test_a_required_field_has_to_be_there_both_ways() -> None:
    parts = ProtobufSerializer(UninterpretedOption.NamePart)
    with pytest.raises(EncodeError):
        parts.serialize(UninterpretedOption.NamePart(name_part="a"), {})
    half = UninterpretedOption.NamePart(name_part="a").SerializePartialToString()
    with pytest.raises(ValueError, match="required field of NamePart"):
        parts.deserialize(half, {})


def test_a_message_of_another_class_or_without_bytes_is_no_body() -> None:
    times = ProtobufSerializer(Timestamp)
    with pytest.raises(TypeError, match="no Timestamp"):
        times.serialize(StringValue(value="x"), {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="all fields of the Timestamp have their defaults"):
        times.serialize(Timestamp(), {})


@pytest.mark.parametrize("kind", [dict, Timestamp(), None])
def test_only_a_generated_class_will_do(kind: object) -> None:
    with pytest.raises(InvalidArgument, match="protoc generated"):
        ProtobufSerializer(kind)  # type: ignore[arg-type]


async def test_a_handler_gets_the_message_and_its_content_type(rocketmq_isolated: Isolated) -> None:
    mine = rocketmq_isolated
    topic = mine.topic("times")
    times = ProtobufSerializer(Timestamp)
    async with Producer("clock", mine.namesrv) as producer:
        await producer.send(Message.of(topic, Timestamp(seconds=17), times))
        await producer.send(Message(topic, b"\xff"))
    with PushConsumer(mine.group("readers"), mine.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, serializer=times)
        both = iter(consumer)
        by_body = {message.body: message for message in (next(both), next(both))}
    good, bad = by_body.pop(Timestamp(seconds=17).SerializeToString()), by_body[b"\xff"]
    assert good.value == Timestamp(seconds=17)
    assert good.content_type == "application/protobuf"
    with pytest.raises(DeserializationFailed, match="ProtobufSerializer"):
        _ = bad.value
