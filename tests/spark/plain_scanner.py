"""The work of the compiled scanner, written for reading: one record at a time, into plain lists.

The Spark tests compare the two; it knows nothing of OrbitMQ's own codecs.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from typing import Any

import pyarrow as pa

from orbitmq.spark.read.columns import arrow_schema

V2_MAGIC = -626843477


class PlainScanner:
    """The interface of `orbitmq.spark.read.scanner.RecordScanner`."""

    def __init__(self, columns: tuple[str, ...], *, topic: str | None = None, tags: Any = None) -> None:
        self._columns = columns
        self._topic = topic
        self._tags = None if tags is None else set(tags)
        self._rows: list[dict[str, Any]] = []
        self.size_bytes = 0

    @property
    def rows(self) -> int:
        return len(self._rows)

    def scan(self, buf: bytes | memoryview, from_queue_offset: int, to_queue_offset: int) -> None:
        position = 0
        while position < len(buf):
            (size,) = struct.unpack_from(">i", buf, position)
            row = read_record(bytes(buf[position : position + size]))
            position += size
            if not from_queue_offset <= row["queueOffset"] < to_queue_offset:
                continue
            if self._topic is not None and row["topic"] != self._topic:
                continue
            if self._tags is not None and row["tags"] not in self._tags:
                continue
            self._rows.append(row)
            self.size_bytes += size

    def take(self) -> pa.RecordBatch:
        arrays = [
            pa.array(
                [_arrow_value(name, row[name]) for row in self._rows], arrow_schema((name,)).field(0).type
            )
            for name in self._columns
        ]
        self._rows = []
        self.size_bytes = 0
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self._columns))


def _arrow_value(name: str, value: Any) -> Any:
    if name.endswith("Timestamp"):
        return value * 1000
    return list(value.items()) if name == "properties" else value


def read_record(record: bytes) -> dict[str, Any]:
    """One stored record as a row, by the layout of the commit log."""
    _, magic, _, queue_id, flag, queue_offset, physical, sys_flag, born = struct.unpack_from(
        ">iiiiiqqiq", record
    )
    position = 48
    born_host, position = _host(record, position, sys_flag & 0x10)
    (stored,) = struct.unpack_from(">q", record, position)
    packed_store_host = record[position + 8 : position + 8 + (20 if sys_flag & 0x20 else 8)]
    store_host, position = _host(record, position + 8, sys_flag & 0x20)
    reconsume_times, _ = struct.unpack_from(">iq", record, position)
    (body_size,) = struct.unpack_from(">i", record, position + 12)
    position += 16
    body = record[position : position + body_size]
    position += body_size
    form = ">h" if magic == V2_MAGIC else ">b"
    (topic_size,) = struct.unpack_from(form, record, position)
    position += struct.calcsize(form)
    topic = record[position : position + topic_size].decode()
    position += topic_size
    (properties_size,) = struct.unpack_from(">h", record, position)
    text = record[position + 2 : position + 2 + properties_size].decode()
    properties = dict(pair.split("\x01", 1) for pair in text.split("\x02") if "\x01" in pair)
    offset_id = (packed_store_host + struct.pack(">q", physical)).hex().upper()
    return {
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": zlib.decompress(body) if sys_flag & 1 else body,
        "properties": properties,
        "flag": flag,
        "sysFlag": sys_flag,
        "bornTimestamp": born,
        "storeTimestamp": stored,
        "bornHost": born_host,
        "storeHost": store_host,
        "msgId": properties.get("UNIQ_KEY", offset_id),
        "offsetMsgId": offset_id,
        "reconsumeTimes": reconsume_times,
    }


def _host(record: bytes, position: int, is_v6: int) -> tuple[str, int]:
    size = 16 if is_v6 else 4
    address = ipaddress.ip_address(record[position : position + size])
    (port,) = struct.unpack_from(">i", record, position + size)
    return (f"[{address}]:{port}" if is_v6 else f"{address}:{port}"), position + size + 4
