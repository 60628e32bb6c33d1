"""Rows of messages to Arrow: each value goes to the column that it belongs to.

Hot: every message that Spark reads is added here. Only the columns that were asked for exist; the others are
None, so a column that nobody reads costs one comparison per row. Compiled only, with the fields in
`batch_builder_cy.pxd`; `new_batch` gives the twin of `plain_batch` where nothing is compiled.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.properties_cy import decode_properties
from orbitmq.spark.read.column_types import COLUMN_TYPES, FROM_PROPERTIES
from orbitmq.spark.read.plain_batch import PlainBatch

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.spark.read.column_builders_cy import (  # type: ignore[import-not-found]
        ColumnBuilder,
    )

_MAP_PARTS = {
    "properties": pa.int32(),
    "properties.names": pa.string(),
    "properties.values": pa.string(),
}
_MAX_WEIGHT = cython.declare(cython.longlong, 0x20000000)
"""Arrow counts the bytes of a column with 31 bits. A batch weighs as much before a column comes near."""


def new_batch(
    names: tuple[str, ...], max_body_bytes: int, before: Any = None, null_unreadable: bool = False
) -> Any:
    """A batch with these columns and no rows. `before` is the last batch: this one begins as large.

    `max_body_bytes` limits the size of an inflated body. With `null_unreadable` one that cannot be inflated
    is null, else its record is bad.
    """
    if cython.compiled:
        return BatchBuilder(names, max_body_bytes, before, null_unreadable)
    return PlainBatch(names, max_body_bytes, null_unreadable)


@cython.final
@cython.cclass
class HostTexts:
    """Texts of packed addresses. Neighbours mostly share their host, so the last one is kept."""

    def __init__(self) -> None:
        self._host = self._text = b""

    def text_of(self, host):
        """The text of a packed address as UTF-8."""
        if not is_same(span_of(self._host), host):
            self._host = bytes_of(host)
            self._text = host_text(self._host).encode()
        return self._text


@cython.final
@cython.cclass
class BatchBuilder:
    """The rows of a batch, column by column."""

    def __init__(
        self, names: tuple[str, ...], max_body_bytes: int, before: Any = None, null_unreadable: bool = False
    ) -> None:
        last: dict[str, Any] = {}
        if before is not None:
            one: BatchBuilder = before
            last = one._builders
        kinds = {name: COLUMN_TYPES[name] for name in names}
        if "properties" in names:
            kinds |= _MAP_PARTS
        self._names = names
        self._builders: dict[str, Any] = {
            name: ColumnBuilder(kind, last.get(name)) for name, kind in kinds.items()
        }
        self._bind()
        self.rows = 0
        self.weight = 0
        # Bytes of a row beside its body and its properties, roughly: texts with their offsets, numbers.
        self._row_bytes = 0
        for name in names:
            is_text = COLUMN_TYPES[name] == pa.string()
            self._row_bytes += 24 if is_text else 4 if name in ("body", "properties") else 8
        self.max_body_bytes = max_body_bytes
        self.null_unreadable = null_unreadable
        self.unreadable = 0
        self.unreadable_reason = ""
        self.reads_properties = not FROM_PROPERTIES.isdisjoint(names)
        self._born_hosts = HostTexts()
        self._store_hosts = HostTexts()

    def _bind(self):
        """Gives each column that was asked for its field."""
        asked: Any = self._builders.get
        self.topic = asked("topic")
        self.queue_id = asked("queueId")
        self.queue_offset = asked("queueOffset")
        self.physical_offset = asked("physicalOffset")
        self.keys = asked("keys")
        self.tags = asked("tags")
        self.body = asked("body")
        self.map_ends = asked("properties")
        self.map_names = asked("properties.names")
        self.map_values = asked("properties.values")
        if self.map_ends is not None:
            self.map_ends.add_int(0)  # where the first row begins
        self.flag = asked("flag")
        self.sys_flag = asked("sysFlag")
        self.born_timestamp = asked("bornTimestamp")
        self.store_timestamp = asked("storeTimestamp")
        self.born_host = asked("bornHost")
        self.store_host = asked("storeHost")
        self.message_id = asked("msgId")
        self.offset_id = asked("offsetMsgId")
        self.reconsume_times = asked("reconsumeTimes")
        self.record_size = asked("recordSize")
        self.property_bytes = asked("propertyBytes")
        return 0

    def row_count(self) -> int:
        """Rows added."""
        return self.rows

    def size_bytes(self) -> int:
        """Memory that the rows need in Arrow, without what marks nulls."""
        builder: ColumnBuilder
        size: cython.Py_ssize_t = 0
        for builder in self._builders.values():
            size += builder.size_bytes()
        return size - 4 if self.map_ends is not None else size

    def arrays(self) -> list[pa.Array]:
        """The columns as Arrow arrays. Nothing may be added afterwards. Raises MemoryError."""
        made = {name: builder.finish() for name, builder in self._builders.items()}
        if "properties" in made:
            made["properties"] = pa.MapArray.from_arrays(*(made[part] for part in _MAP_PARTS))
        return [made[name] for name in self._names]

    def add_row(self, row):
        """Adds a message; its properties were found before, where a column needs them.

        Raises OverflowError for a batch that is too large.
        """
        self._add_place(row)
        self._add_numbers(row)
        self._add_hosts(row)
        self._add_ids(row)
        self._add_content(row)
        return self._count(row)

    def _add_place(self, row):
        if self.topic is not None:
            self.topic.add_bytes(topic_of(row.data, cython.address(row.parts)))
        if self.queue_id is not None:
            self.queue_id.add_int(queue_id_of(row.data, cython.address(row.parts)))
        if self.queue_offset is not None:
            self.queue_offset.add_long(row.queue_offset)
        if self.physical_offset is not None:
            self.physical_offset.add_long(physical_offset_of(row.data, cython.address(row.parts)))
        return 0

    def _add_numbers(self, row):
        if self.flag is not None:
            self.flag.add_int(row.flag)
        if self.sys_flag is not None:
            self.sys_flag.add_int(row.sys_flag)
        if self.born_timestamp is not None:
            self.born_timestamp.add_time(born_timestamp_of(row.data, cython.address(row.parts)))
        if self.store_timestamp is not None:
            self.store_timestamp.add_time(store_timestamp_of(row.data, cython.address(row.parts)))
        if self.reconsume_times is not None:
            self.reconsume_times.add_int(reconsume_times_of(row.data, cython.address(row.parts)))
        if self.record_size is not None:
            self.record_size.add_int(cython.cast(cython.int, row.parts.size))
        return 0

    def _add_hosts(self, row):
        if self.born_host is not None:
            self.born_host.add_object(
                self._born_hosts.text_of(born_host_of(row.data, cython.address(row.parts)))
            )
        if self.store_host is not None:
            self.store_host.add_object(
                self._store_hosts.text_of(store_host_of(row.data, cython.address(row.parts)))
            )
        return 0

    def _add_ids(self, row):
        memory: cython.uchar[56]  # of two hexadecimal digits for each byte of an IPv6 host and an offset
        text: Writer = writer_over(memory, cython.sizeof(memory))
        has_unique_id: cython.bint = self.message_id is not None and is_there(row.found.unique_id)
        if self.offset_id is not None or (self.message_id is not None and not has_unique_id):
            put_hex_span(cython.address(text), store_host_of(row.data, cython.address(row.parts)))
            put_hex_span(cython.address(text), physical_offset_bytes(row.data, cython.address(row.parts)))
        if self.offset_id is not None:
            self.offset_id.add_bytes(span_written(cython.address(text)))
        if has_unique_id:
            self.message_id.add_text(row.found.unique_id)
        elif self.message_id is not None:
            self.message_id.add_bytes(span_written(cython.address(text)))
        return 0

    def _add_content(self, row):
        if self.keys is not None:
            self.keys.add_text_or_null(row.found.keys)
        if self.tags is not None:
            self.tags.add_text_or_null(row.found.tags)
        if self.body is not None:
            if not is_there(row.body):
                self.body.note_null()
            self.body.add_bytes(row.body)
        if self.map_ends is not None:
            self._add_map(row)
        if self.property_bytes is not None:
            self.property_bytes.add_bytes(row.properties)
        return 0

    def _add_map(self, row):
        i: cython.int
        if row.found.count >= 0:
            for i in range(row.found.count):
                self.map_names.add_text(row.found.names[i])
                self.map_values.add_text(row.found.values[i])
        else:
            found: dict[str, str] = decode_properties(bytes_of(row.properties))
            for name, value in found.items():
                self.map_names.add_object(name.encode())
                self.map_values.add_object(value.encode())
        self.map_ends.add_int(cython.cast(cython.int, self.map_names.rows))
        return 0

    def _count(self, row):
        self.rows += 1
        self.weight += self._row_bytes + row.parts.topic_length
        if self.body is not None:
            self.weight += row.body.size
        if self.property_bytes is not None:
            self.weight += row.properties.size
        if self.reads_properties:
            self.weight += row.properties.size
        if self.weight > _MAX_WEIGHT:
            raise OverflowError("more than 512 MiB in one batch: take() it earlier")
        return 0
