"""The slave's side: where it asks its master to continue, and what it makes of what the master sends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orbitmq.protocol.replication import BadStream, Buffer, PieceReader, encode_report
from orbitmq.store.replica.replica_log import ReplicaLog


class Following:
    """One connection to the master. Times are in ms; what it gives to send goes to the master at once."""

    def __init__(self, replica: ReplicaLog, master: str, now: int) -> None:
        replica.drop_partial()
        self._replica = replica
        self.master = master
        self.last_heard_ms = now
        self.last_report_ms = now
        self.reported = -1
        self.received_bytes = 0
        self.heartbeats = 0
        """Number of heartbeats that have come."""
        self.bytes_per_second = 0
        self.is_verified = False
        """True once the master has sent something that continues where this log ends."""
        self._pieces = PieceReader()
        self._second = 0
        self._in_second = 0

    def report(self, end: int, now: int, interval_ms: int) -> bytes | None:
        """The report that is due: the first one, one of progress up to `end`, or one after an interval."""
        if end <= self.reported and now - self.last_report_ms < interval_ms:
            return None
        self.reported = max(end, self.reported)
        self.last_report_ms = now
        return encode_report(self.reported)

    def heard(self, data: bytes, now: int) -> None:
        """Appends what the master has sent. Raises BadStream, NotTheMasters."""
        self.last_heard_ms = now
        pieces = self._pieces.feed(data)
        self._append([(piece.physical_offset, piece.data) for piece in pieces], now)
        following = self._pieces.next_offset
        if following is not None:
            self._check(following)

    def _append(self, pieces: Sequence[tuple[int, Buffer]], now: int) -> None:
        """Appends pieces of the log, and counts heartbeats. Raises BadStream, NotTheMasters."""
        for physical_offset, data in _joined(pieces):
            self._check(physical_offset)
            if data:
                self._replica.append(physical_offset, data)
                self._count(len(data), now)
        self.heartbeats += sum(not data for _, data in pieces)

    def _check(self, physical_offset: int) -> None:
        end = self._replica.end
        if end and physical_offset != end:
            raise BadStream(
                f"the master {self.master} sends its log from {physical_offset} on, and here it ends at {end}"
            )

    def _count(self, size: int, now: int) -> None:
        self.received_bytes += size
        self.rate(now)
        self._in_second += size

    def rate(self, now: int) -> int:
        """Bytes received within the last whole second."""
        second = now // 1000
        if second != self._second:
            self.bytes_per_second = self._in_second if second == self._second + 1 else 0
            self._second, self._in_second = second, 0
        return self.bytes_per_second

    def is_silent(self, now: int, limit_ms: int) -> bool:
        """Tells whether the master has sent nothing for too long, not even a heartbeat."""
        return now - self.last_heard_ms > limit_ms


def _joined(pieces: Sequence[tuple[int, Buffer]]) -> Iterator[tuple[int, Buffer]]:
    """Pieces with those that continue from them: an append for each would cost more than its bytes do."""
    begin = end = -1
    parts: list[Buffer] = []
    for physical_offset, data in pieces:
        if physical_offset != end:
            if parts:
                yield begin, b"".join(parts)
            begin = end = physical_offset
            parts = []
        parts.append(data)
        end += len(data)
    if parts:
        yield begin, parts[0] if len(parts) == 1 else b"".join(parts)
