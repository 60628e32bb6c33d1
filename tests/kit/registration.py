"""The compressed form of a registration, as other brokers write it."""

from __future__ import annotations

import zlib
from struct import Struct

from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicFilterType
from orbitmq.protocol.schema import fastjson

_INT = Struct(">i")


def encode_compressed(body: RegisterBrokerBody) -> bytes:
    """The compressed form. Attributes are left out where one holds a space, which the form cannot carry."""
    wrapper = body.topic_config_serialize_wrapper
    parts = [_sized(wrapper.data_version.to_json()), _INT.pack(len(wrapper.topic_config_table))]
    for config in wrapper.topic_config_table.values():
        attributes = fastjson.write(config.attributes)
        if " " in attributes:
            attributes = "{}"
        kind = (config.topic_filter_type or TopicFilterType.SINGLE_TAG).name
        text = (
            f"{config.topic_name} {config.read_queue_nums} {config.write_queue_nums} {config.perm} "
            f"{kind} {attributes}"
        )
        parts.append(_sized(text.encode()))
    parts.append(_sized(fastjson.write(body.filter_server_list).encode()))
    parts.append(_INT.pack(len(wrapper.topic_queue_mapping_info_map)))
    parts += [_sized(mapping.to_json()) for mapping in wrapper.topic_queue_mapping_info_map.values()]
    return zlib.compress(b"".join(parts), 9)


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data
