"""The compressed form of a registration's body (compressedRegister), instead of JSON.

zlib over: `length i32 | DataVersion JSON`, `count i32`, per topic `length i32 | text`, `length i32 | list of
filter servers, JSON`, `count i32`, per static topic `length i32 | TopicQueueMappingInfo JSON`. A topic's text
is `name readQueues writeQueues perm SINGLE_TAG attributes`, the attributes as JSON; its order flag and system
flag are not carried.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as StructError  # noqa: N812

from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
)
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.schema import fastjson

MAX_INFLATED_BYTES = 64 << 20
"""Longest inflated form taken: some 500,000 topics."""
MAPPINGS_SINCE = 413
"""Version ordinal from which senders append static mappings (V5_0_0)."""

_INT = Struct(">i")


def decode_compressed(data: bytes | memoryview, sender_version: int) -> RegisterBrokerBody:
    """Reads the compressed form of a sender of that version. Raises Malformed."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise Malformed(f"a compressed registration cannot be inflated: {error}") from None
    if not inflater.eof:
        raise Malformed(f"a compressed registration is cut, or longer than {MAX_INFLATED_BYTES} bytes")
    reader = _Reader(plain)
    try:
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=DataVersion.from_json(reader.text()))
        for _ in range(reader.count()):
            config = _topic(reader.text())
            wrapper.topic_config_table[config.topic_name] = config
        servers = fastjson.parse(reader.text())
        if sender_version >= MAPPINGS_SINCE:
            for _ in range(reader.count()):
                mapping = TopicQueueMappingInfo.from_json(reader.text())
                wrapper.topic_queue_mapping_info_map[mapping.topic] = mapping
    except (StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a compressed registration cannot be read: {error}") from None
    if not isinstance(servers, list):
        raise Malformed("a compressed registration's filter servers are no list")
    return RegisterBrokerBody(wrapper, [str(server) for server in servers])


def _topic(text: str) -> TopicConfig:
    fields = text.split(" ")
    try:
        name, read_queues, write_queues, perm, kind = fields[:5]
        config = TopicConfig(name, int(read_queues), int(write_queues), int(perm))
    except ValueError:
        raise Malformed(f"{text[:60]!r} is no topic of a compressed registration") from None
    config.topic_filter_type = TopicFilterType.__members__.get(kind, TopicFilterType.SINGLE_TAG)
    if len(fields) == 6 and fields[5].startswith("{"):
        attributes = fastjson.parse(fields[5])
        config.attributes = {str(key): str(value) for key, value in attributes.items()}
    return config


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        """A number, as many items as can follow at most."""
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += 4
        if not 0 <= number <= len(self._data) // 4:
            raise Malformed(f"a compressed registration counts {number} items")
        return int(number)

    def text(self) -> str:
        (length,) = _INT.unpack_from(self._data, self._at)
        start = self._at + 4
        if not 0 <= length <= len(self._data) - start:
            raise Malformed("a compressed registration ends inside a text")
        self._at = start + length
        return self._data[start : self._at].decode()
