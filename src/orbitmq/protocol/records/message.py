"""A message as it stands in the commit log, and what can be wrong with one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orbitmq.protocol.errors import Malformed, OrbitError
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.records.properties_cy import find_property

MAGIC_V1 = -626843481
"""0xDAA320A7: a record with one byte for the length of its topic."""
MAGIC_V2 = -626843477
"""0xDAA320AB: a record with two bytes for the length of its topic."""
MAGIC_BLANK = -875286124
"""0xCBD43194: the rest of the segment is empty."""

BLANK_BYTES = 8
"""Size of a blank record's two words; an append always leaves room for them."""
FIXED_BYTES = 91
"""Size of a v1 record with IPv4 hosts and without body, topic and properties."""

COMPRESSED = 0x1
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300
"""Bits of a message's sysFlag. Compression type 0 is zlib as well: what old clients write."""

MAX_PROPERTIES_BYTES = 32_767
BROKER_PROPERTIES_BYTES = 1024
"""Room that a broker keeps for what it adds to the properties of messages which it has accepted: where a copy
is to go, how often it was delivered, the handle of a pop. The longest names take all of it."""
MAX_SENT_PROPERTIES_BYTES = MAX_PROPERTIES_BYTES - BROKER_PROPERTIES_BYTES
"""Limit of a sent message, with what the broker adds when it stores it."""
MAX_TOPIC_BYTES = 255

PROPERTY_CRC_NAME = b"__CRC32#"
PROPERTY_CRC_BYTES = 20
"""Length of the property that ends a record under enabledAppendPropCRC: name, 0x01, ten digits, 0x02."""


class BadRecord(Malformed):
    """Bytes that are not a whole and sound record (or batch).

    `reason` says what is wrong; `position` is where the record begins in the buffer it was read from.
    """

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} (record at byte {self.position})"


class RecordTooLarge(OrbitError, ValueError):
    """A message that no record can hold, or not in the room given: topic, properties, or the whole."""


@dataclass(slots=True, eq=True)
class StoredMessage:
    """One record of the commit log, its fields as they are stored.

    Times are milliseconds since 1970. Hosts are packed: 4 or 16 bytes of address, 4 of port.
    """

    topic: str
    body: bytes
    """As stored: compressed where sysFlag says so, several messages where it is an inner batch."""
    properties: bytes
    """`name 0x01 value 0x02 ...`; `property_map()` takes them apart."""
    queue_id: int
    queue_offset: int
    physical_offset: int
    flag: int
    """The sender's own number."""
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    """31 bits, over the stored body."""
    size: int
    """Length of the whole record in bytes."""

    def property_map(self) -> dict[str, str]:
        return decode_properties(self.properties)

    @property
    def tags(self) -> str | None:
        """The tag, None without one."""
        return self._text(b"TAGS")

    @property
    def keys(self) -> list[str]:
        return (self._text(b"KEYS") or "").split()

    @property
    def unique_id(self) -> str | None:
        """The id that the sender's client gave it, None without one."""
        return self._text(b"UNIQ_KEY")

    @property
    def offset_id(self) -> str:
        return offset_message_id(self.store_host, self.physical_offset)

    def with_body(self, body: bytes) -> StoredMessage:
        """The same message with a plain body in place of a compressed one."""
        return replace(self, body=body, sys_flag=self.sys_flag & ~(COMPRESSED | COMPRESSION_MASK))

    def _text(self, name: bytes) -> str | None:
        value = find_property(self.properties, name)
        return None if value is None else value.decode("utf-8", "replace")
