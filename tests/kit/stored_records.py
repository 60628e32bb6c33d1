"""Records as a broker stores them, for tests of those who read them."""

from __future__ import annotations

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import pack_host
from tests.wire.vector_files import load

V4 = pack_host("10.0.0.1", 80)
V6 = pack_host("2001:db8::1", 65_535)
STORE_TIME_MS = 1_700_000_000_456
APACHE_RECORDS = [
    bytes.fromhex(vector["record_hex"])
    for vector in load("store_messages")["records"]
    if not vector.get("appendPropCRC")
]
"""Records that Apache's broker wrote."""


def stored_record(
    queue_offset: int,
    body: bytes = b"body",
    properties: bytes = b"TAGS\x01a\x02",
    *,
    topic: bytes = b"T",
    sys_flag: int = 0,
    born_host: bytes = V4,
    born_timestamp: int = 1_700_000_000_123,
    store_timestamp: int = STORE_TIME_MS,
    physical_offset: int = 1 << 40,
) -> bytes:
    """One record."""
    out = bytearray(300 + len(topic) + len(body) + len(properties))
    size = encode_record(
        out,
        0,
        3,
        -7,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        V4,
        2,
        0,
        body,
        topic,
        properties,
    )
    return bytes(out[:size])
