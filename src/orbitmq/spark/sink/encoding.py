"""Rows of a record batch to what travels: bodies as they are, everything else as one property string."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.client.core.names import check_topic_to_send
from orbitmq.client.sending.batching_cy import ENTRY_BYTES
from orbitmq.protocol.names import (
    ORIGIN_MESSAGE_ID,
    RESERVED_PROPERTIES,
    RETRY_PREFIX,
    RETRY_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    WRITE_PROPERTY,
    IllegalName,
)
from orbitmq.protocol.records.ids import unique_id_of
from orbitmq.protocol.records.message import MAX_PROPERTIES_BYTES
from orbitmq.spark.sink.errors import BadRow
from orbitmq.spark.sink.identity import MOST_ROWS, PartitionIdentity, unique_id
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.shape import Shape

_OF_RETRIES = frozenset({RETRY_TOPIC, ORIGIN_MESSAGE_ID})
"""Properties that a message in a retry topic needs: consumers deliver it under its original topic."""


class Outgoing(NamedTuple):
    """A message, ready to go."""

    topic: str
    sharding_key: str | None
    flag: int
    body: bytes
    properties: bytes
    unique_id: str
    row: int
    """Its place in the partition."""
    name: bytes
    """Its identity, as in its property `orbitmq.write`; empty if it need not be recognized again."""
    waits_in: str | None
    """The brokers' own topic in which a delayed message waits for its time; None: it is not delayed."""
    also_in: str | None = None
    """Another topic in which it may be already."""

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES + len(self.body) + len(self.properties)


@dataclass(eq=False, repr=False)
class Encoder:
    """Makes the messages of one partition. `new_id` makes the unique ids where there is no identity."""

    _shape: Shape
    _options: WriteOptions
    _: KW_ONLY
    identity: PartitionIdentity | None
    new_id: Callable[[int], str]

    def __post_init__(self) -> None:
        self._row = 0
        self._good_topics: set[str] = set()

    def encode(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        """The messages of a batch of rows, in order. Raises BadRow."""
        max_bytes = self._options.max_message_bytes
        identity = self.identity
        prefix = identity.id_prefix if identity else ""
        now = time.time_ns() // 1_000_000
        for topic, body, keys, tags, properties, sharding_key, delay, flag, once_key, also_in in zip(
            *self._columns(batch), strict=True
        ):
            row = self._row
            self._row += 1
            if topic not in self._good_topics:
                self._check_topic(topic, row)
            if not body or len(body) > max_bytes:
                raise self._unfit_body(row, len(body or b""))
            parts: list[str] = []
            if properties:
                self._own_properties(properties, parts, row, retried=topic.startswith(RETRY_PREFIX))
            if keys:
                text = keys if isinstance(keys, str) else " ".join(key for key in keys if key)
                if text:
                    parts.append(f"KEYS\x01{text}")
            if tags:
                parts.append(f"TAGS\x01{tags}")
            if delay is not None:
                parts.append(delay)
            if sharding_key:
                parts.append(f"__SHARDINGKEY\x01{sharding_key}")
            if identity is None:
                name, key = "", self.new_id(now)
            else:
                name, key = self._identify(identity, prefix, row, once_key)
                parts.append(f"{WRITE_PROPERTY}\x01{name}")
            parts.append(f"UNIQ_KEY\x01{key}")
            parts.append("WAIT\x01true\x02")
            encoded = self._joined(parts, row)
            yield Outgoing(
                topic,
                sharding_key or None,
                flag or 0,
                body,
                encoded,
                key,
                row,
                name.encode(),
                None if delay is None else (SCHEDULE_TOPIC if delay.startswith("DELAY") else TIMER_TOPIC),
                also_in,
            )

    def _unfit_body(self, row: int, size_bytes: int) -> BadRow:
        if not size_bytes:
            return BadRow(f"{self._where(row)} has no body: a message has to have one of at least a byte")
        return BadRow(
            f"{self._where(row)} is too large: a body of {size_bytes} bytes is over maxMessageBytes, "
            f"{self._options.max_message_bytes}"
        )

    def _joined(self, parts: list[str], row: int) -> bytes:
        """The property string of its entries. Raises BadRow where it cannot be stored."""
        text = "\x02".join(parts)
        if text.count("\x02") != len(parts) or text.count("\x01") != len(parts) or "\x00" in text:
            raise BadRow(
                f"{self._where(row)}: keys, tag, sharding key and properties may not hold the characters "
                "U+0000 to U+0002"
            )
        encoded = text.encode()
        if len(encoded) > MAX_PROPERTIES_BYTES:
            raise BadRow(
                f"{self._where(row)} is too large: {len(encoded)} bytes of keys, tag and properties, and "
                f"{MAX_PROPERTIES_BYTES} can be stored"
            )
        return encoded

    def _own_properties(
        self, properties: list[tuple[str, str | None]], parts: list[str], row: int, *, retried: bool
    ) -> None:
        for name, value in properties:
            if not value or name == WRITE_PROPERTY:
                continue
            if name in RESERVED_PROPERTIES and not (retried and name in _OF_RETRIES):
                continue
            if not name:
                raise BadRow(f"{self._where(row)} has a property without a name")
            parts.append(f"{name}\x01{value}")

    def _identify(
        self, identity: PartitionIdentity, prefix: str, row: int, once_key: str | None
    ) -> tuple[str, str]:
        """The name and the unique id of a row."""
        if self._shape.once_key is not None:
            if not once_key:
                raise BadRow(f"{self._where(row)} has no onceKey")
            name = identity.of_key(once_key)
            return name, unique_id_of(name)
        if row >= MOST_ROWS:
            raise BadRow(f"a partition has more than {MOST_ROWS} rows: repartition the data frame")
        return identity.of_row(row), unique_id(prefix, row)

    def _check_topic(self, topic: str | None, row: int) -> None:
        if topic is None:
            raise BadRow(f"{self._where(row)} has no topic")
        try:
            check_topic_to_send(topic)
        except IllegalName as error:
            raise BadRow(f"{self._where(row)}: {error}") from None
        self._good_topics.add(topic)

    def _where(self, row: int) -> str:
        return f"row {row} of its partition"

    def _columns(self, batch: pa.RecordBatch) -> list[Sequence[Any]]:
        shape, options = self._shape, self._options
        count = batch.num_rows

        def column(place: int | None, constant: Any = None) -> Sequence[Any]:
            if constant is not None or place is None:
                return [constant] * count
            values: list[Any] = batch.column(place).to_pylist()
            return values

        body = batch.column(shape.body)
        if not pa.types.is_binary(body.type) and not pa.types.is_large_binary(body.type):
            body = body.cast(pa.binary())
        return [
            column(shape.topic, options.topic),
            body.to_pylist(),
            column(shape.keys, options.keys),
            column(shape.tags, options.tags),
            column(shape.properties),
            column(shape.sharding_key, options.sharding_key),
            self._delays(batch),
            column(shape.flag),
            column(shape.once_key),
            column(shape.also_in),
        ]

    def _delays(self, batch: pa.RecordBatch) -> Sequence[str | None]:
        """The property that delays each message, None for those that go at once."""
        shape, options = self._shape, self._options
        for name, constant in (
            ("DELAY", options.delay_level),
            ("TIMER_DELAY_MS", options.delay_ms),
            ("TIMER_DELIVER_MS", options.deliver_at_ms),
        ):
            if constant is not None:
                return [f"{name}\x01{constant}"] * batch.num_rows
        if shape.delay_level is not None:
            return self._delay("DELAY", batch.column(shape.delay_level))
        if shape.delay_ms is not None:
            return self._delay("TIMER_DELAY_MS", batch.column(shape.delay_ms))
        if shape.deliver_at is not None:
            times = batch.column(shape.deliver_at)
            if pa.types.is_timestamp(times.type):
                times = pc.divide(times.cast(pa.int64()), 1000)
            return self._delay("TIMER_DELIVER_MS", times)
        return [None] * batch.num_rows

    def _delay(self, name: str, values: pa.Array) -> Sequence[str | None]:
        listed = values.to_pylist()
        wrong = next((value for value in listed if value is not None and value < 0), None)
        if wrong is not None:
            raise BadRow(f"a message cannot be delayed by {wrong}: 0 or null sends it at once")
        return [f"{name}\x01{value}" if value else None for value in listed]
