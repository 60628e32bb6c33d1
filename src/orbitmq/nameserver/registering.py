"""A broker's registration, read so that a table that did not change costs little.

Brokers send their whole table every half minute. Its text is parsed, but a topic becomes an object only when
its row is written: for 10,000 topics that is 10 ms instead of 60.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from orbitmq.handling.call import READ_ON_LOOP_BYTES, Call
from orbitmq.nameserver.brokers import Registration
from orbitmq.protocol.bodies.registration import decode_compressed
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BodyTooLong, Malformed, MalformedJson, Refused
from orbitmq.protocol.requests.route import RegisterBroker
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.declare import BYTES_PER_ELEMENT

_ZLIB = 0x78
"""The first byte of what zlib writes."""


def is_long(call: Call[RegisterBroker]) -> bool:
    """True if reading a registration takes more than a ms or two: a compressed one may be of any length."""
    body = call.command.body
    return (
        body is not None and len(body) > 0 and (_is_compressed(call, body) or len(body) > READ_ON_LOOP_BYTES)
    )


def _is_compressed(call: Call[RegisterBroker], body: bytes | memoryview) -> bool:
    return call.request.compressed or body[0] == _ZLIB


def reading(call: Call[RegisterBroker]) -> Generator[None, None, Registration]:
    """`read_registration` as work for a thread."""
    yield from ()
    return read_registration(call)


def read_registration(call: Call[RegisterBroker]) -> Registration:
    """The registration in a request body. Raises Refused for a body that is damaged or cannot be read."""
    request = call.request
    body = call.command.body
    if request.body_crc32 and request.body_crc32 != zlib.crc32(body or b"") & 0x7FFFFFFF:
        raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    registration = Registration(
        request.cluster_name,
        request.broker_name,
        request.broker_id,
        request.broker_addr,
        request.ha_server_addr,
        DataVersion(),
        {},
        zone_name=request.zone_name,
        timeout_ms=request.heartbeat_timeout_millis,
        enable_acting_master=request.enable_acting_master,
        connection_id=call.peer.connection_id,
        host=call.peer.address.rpartition(":")[0],
    )
    if body:
        try:
            if _is_compressed(call, body):
                _read_compressed(registration, body, call.command.version)
            else:
                _read_json(registration, body)
        except Malformed as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the registration cannot be read: {error}") from None
    return registration


def _read_compressed(registration: Registration, body: bytes | memoryview, version: int) -> None:
    read = decode_compressed(body, version)
    wrapper = read.topic_config_serialize_wrapper
    registration.version = wrapper.data_version
    registration.topics = wrapper.topic_config_table
    registration.mappings = wrapper.topic_queue_mapping_info_map
    registration.filter_servers = read.filter_server_list


def _read_json(registration: Registration, body: bytes | memoryview) -> None:
    most = RegisterBroker.MAX_BODY // BYTES_PER_ELEMENT
    if fastjson.count_elements(body) > most:
        raise BodyTooLong("too many elements", f"the {most} that {RegisterBroker.NAME} may have")
    fields = _object(fastjson.parse(body))
    wrapper = _object(fields.get("topicConfigSerializeWrapper"))
    registration.version = DataVersion.from_value(_object(wrapper.get("dataVersion")))
    registration.topics = _Topics(_object(wrapper.get("topicConfigTable")))
    registration.mappings = {
        topic: TopicQueueMappingInfo.from_value(mapping)
        for topic, mapping in _object(wrapper.get("topicQueueMappingInfoMap")).items()
    }
    registration.filter_servers = [str(server) for server in fields.get("filterServerList") or ()]


def _object(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedJson(f"{str(value)[:40]!r} is not an object")
    return value


class _Topics(Mapping[str, TopicConfig]):
    """Topics by name, each read when it is asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> TopicConfig:
        return TopicConfig.from_value(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values
