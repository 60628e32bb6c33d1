"""Store directories made by hand, byte for byte: what no broker would write, too."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.queue_units import pack_unit

HOST = pack_host("127.0.0.1", 10911)
TIME_MS = 1_760_000_000_000


@dataclass
class Put:
    """Place of a message."""

    physical_offset: int
    size: int
    queue_offset: int


@dataclass
class StoreFiles:
    """A store that grows by whole records; as a broker's, its files have their full size from the start."""

    root: Path
    segment_bytes: int = 16 << 10
    queue_file_units: int = 1000
    end: int = 0
    time_ms: int = TIME_MS
    offsets: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def put(
        self,
        body: bytes = b"body",
        topic: str = "orders",
        queue_id: int = 0,
        *,
        tags: str | None = None,
        properties: str = "",
        sys_flag: int = 0,
        unit: bool = True,
    ) -> Put:
        """One more message, a millisecond later than the one before."""
        if tags is not None:
            properties = f"TAGS\x01{tags}\x02{properties}"
        raw = bytearray(len(body) + len(topic.encode()) + len(properties.encode()) + 200)
        offset = self.offsets[topic, queue_id]
        left = self.segment_bytes - self.end % self.segment_bytes

        def encode(at: int) -> int:
            return encode_record(
                raw, 0, queue_id, 7, offset, at, sys_flag, self.time_ms, HOST, self.time_ms, HOST, 0, 0, body,
                topic.encode(), properties.encode(),
            )  # fmt: skip

        size = encode(self.end)
        if size + 8 > left:
            blank = bytearray(8)
            encode_blank(blank, 0, left)
            self.write(self.end, bytes(blank))
            self.end += left
            encode(self.end)
        self.write(self.end, bytes(raw[:size]))
        placed = Put(self.end, size, offset)
        self.end += size
        self.time_ms += 1
        self.offsets[topic, queue_id] += 1
        if unit:
            self.write_unit(topic, queue_id, offset, placed.physical_offset, size, java_hash(tags or ""))
        return placed

    def write(self, physical_offset: int, data: bytes) -> None:
        """Bytes at a place of the commit log."""
        start = physical_offset - physical_offset % self.segment_bytes
        self._write(self.log_file(start), self.segment_bytes, physical_offset - start, data)

    def log_file(self, physical_offset: int) -> Path:
        """The file that holds a physical offset."""
        return self.root / "commitlog" / f"{physical_offset - physical_offset % self.segment_bytes:020d}"

    def write_unit(self, topic: str, queue_id: int, offset: int, physical: int, size: int, code: int) -> None:
        """One unit of a consume queue."""
        file_bytes = self.queue_file_units * 20
        start = offset * 20 - offset * 20 % file_bytes
        path = self.root / "consumequeue" / topic / str(queue_id) / f"{start:020d}"
        self._write(path, file_bytes, offset * 20 - start, pack_unit(physical, size, code))

    def flip(self, physical_offset: int) -> None:
        """One bit of the commit log turned over."""
        path = self.log_file(physical_offset)
        raw = bytearray(path.read_bytes())
        raw[physical_offset % self.segment_bytes] ^= 0x40
        path.write_bytes(raw)

    @staticmethod
    def _write(path: Path, size: int, at: int, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(size)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)


def size_word(size: int) -> bytes:
    """Beginning of a record."""
    return struct.pack(">i", size)
