"""The master's side: one link for each slave, and how far how many of them have got.

A link waits for the slave's first report, which says where its log ends; from there on the master sends.
Every report is an acknowledgement at the same time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from orbitmq.protocol.replication import MAX_PIECE_BYTES, BadStream, ReportReader, encode_header

MAX_GROWTH_NOTES = 2_000
REFUSALS = ("credentials", "limit", "stream", "tls")
"""Causes for which connections to the HA port are refused: no sign-in or a wrong one, too many slaves, bytes
that no slave of this log sends, no TLS or none that fits."""


class Send(NamedTuple):
    """A piece of the log to send; a heartbeat where `size` is 0."""

    physical_offset: int
    size: int


class SlaveLink:
    """One slave, as its master knows it. Times are in ms."""

    def __init__(self, address: str, now: int) -> None:
        self.address = address
        """The slave's end of the connection, `ip:port`."""
        self.acknowledged = -1
        """The slave holds the log up to this physical offset; -1 before its first report."""
        self.next_offset = -1
        """Physical offset of the next piece; -1 before the slave's first report."""
        self.sent_bytes = 0
        self.bytes_per_second = 0
        """Sent within the last whole second."""
        self.broker_id = 0
        """The slave's id in its group, where it sends it (controller mode)."""
        self.caught_up_ms = now
        """The last time at which the slave is known to have had all of the log."""
        self.greeting: bytes | None = None
        """Bytes to send to the slave before anything else."""
        self.last_heard_ms = now
        self.heartbeat_due = False
        """A heartbeat is to leave behind what the slave lacks, before its interval is over."""
        self._last_sent_ms = 0
        """Nothing yet: a slave that is level hears at once that its log continues here."""
        self._level_at = 0
        self._level_ms = now
        self._reports = ReportReader()
        self._second = 0
        self._in_second = 0

    def heard(self, data: bytes, log_begin: int, log_end: int, now: int) -> bool:
        """Handles bytes from the slave; gives True where it has acknowledged more.

        Raises BadStream where the peer is no slave, or its log is not a beginning of this one.
        """
        report = self._read(data, log_end)
        if report is None:
            return False
        self.last_heard_ms = now
        if report > log_end:
            raise BadStream(
                f"the slave {self.address} holds {report} bytes of the log, this master only "
                f"{log_end}: they have "
                "gone different ways. Start the slave with an empty store, or make it the master if "
                "its messages "
                "are the ones to keep"
            )
        if self.next_offset < 0:
            self.next_offset = self._start(report, log_begin)
        elif report > self.next_offset:
            # Nothing of such a report counts: a promise would rest on what no slave has.
            raise BadStream(
                f"the slave {self.address} acknowledges the log up to {report}, and was sent it only up to "
                f"{self.next_offset}: it does not follow this master. Its acknowledgements do not count; "
                "look at what connects from there"
            )
        before, self.acknowledged = self.acknowledged, report
        return report > before

    def _read(self, data: bytes, log_end: int) -> int | None:
        return self._reports.feed(data)

    def header(self, send: Send, confirm_offset: int) -> bytes:
        """The header of a piece."""
        return encode_header(*send)

    def _room(self, physical_offset: int) -> int:
        """Largest number of bytes that a piece may have there."""
        return MAX_PIECE_BYTES

    def note_log_end(self, log_end: int, now: int) -> None:
        """Notes when the slave was level with the log. Call some times a second."""
        if self.acknowledged >= self._level_at:
            self.caught_up_ms = self._level_ms
            self._level_at, self._level_ms = log_end, now

    def _start(self, report: int, log_begin: int) -> int:
        if report and report < log_begin:
            raise BadStream(
                f"the slave {self.address} holds the log up to {report}, and here it begins at "
                f"{log_begin}: what "
                "lies between is gone. Start the slave with an empty store"
            )
        return report or log_begin

    def next_send(
        self, log_end: int, segment_bytes: int, batch_bytes: int, heartbeat_ms: int, now: int
    ) -> Send | None:
        """The next piece for this slave; None where it has everything and heard of the master lately."""
        if self.next_offset < 0:
            return None
        left = log_end - self.next_offset
        if left > 0:
            in_segment = segment_bytes - self.next_offset % segment_bytes
            return Send(self.next_offset, min(left, in_segment, batch_bytes, self._room(self.next_offset)))
        if self.heartbeat_due or now - self._last_sent_ms >= heartbeat_ms:
            return Send(self.next_offset, 0)
        return None

    def sent(self, send: Send, now: int) -> None:
        """Notes that a piece has left."""
        self.next_offset += send.size
        self.heartbeat_due = self.heartbeat_due and send.size > 0
        self.sent_bytes += send.size
        self._last_sent_ms = now
        self._count_second(now)
        self._in_second += send.size

    def rate(self, now: int) -> int:
        """Bytes sent within the last whole second."""
        self._count_second(now)
        return self.bytes_per_second

    def _count_second(self, now: int) -> None:
        second = now // 1000
        if second != self._second:
            self.bytes_per_second = self._in_second if second == self._second + 1 else 0
            self._second, self._in_second = second, 0

    def is_silent(self, now: int, limit_ms: int) -> bool:
        """Tells whether the slave has not reported for too long."""
        return now - self.last_heard_ms > limit_ms

    def is_in_sync(self, log_end: int, most_gap: int) -> bool:
        """Tells whether the slave lacks less than a gap (haMaxGapNotInSync)."""
        return self.acknowledged >= 0 and log_end - self.acknowledged < most_gap


class LogGrowth:
    """Times at which the log had grown to physical offsets: they show for how long a slave has lacked bytes.

    A slave's offset may lie within a record, whose store time cannot be read there.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._times: list[int] = []

    def note(self, log_end: int, now: int) -> None:
        """Notes that the log ends there now. Call some times a second."""
        if self._offsets and self._offsets[-1] == log_end:
            self._times[-1] = now
            return
        self._offsets.append(log_end)
        self._times.append(now)
        if len(self._offsets) > MAX_GROWTH_NOTES:
            # Every second one: what lies between counts as older than it is, never as younger.
            del self._offsets[1::2], self._times[1::2]

    def time_of(self, physical_offset: int) -> int | None:
        """The time before which nothing was stored from an offset on; None for an offset before the notes."""
        index = bisect_right(self._offsets, physical_offset) - 1
        return self._times[index] if index >= 0 else None


class TransferLimit:
    """Bytes that may leave to all slaves within a second (maxHaTransferByteInSecond, haFlowControlEnable)."""

    def __init__(self) -> None:
        self._second = 0
        self._used = 0

    def left(self, most: int, now: int) -> int:
        """Bytes that may still leave in this second."""
        if now // 1000 != self._second:
            self._second, self._used = now // 1000, 0
        return max(0, most - self._used)

    def use(self, size: int) -> None:
        """Counts bytes that have left."""
        self._used += size


class Links:
    """All slaves that are connected to a master."""

    def __init__(self) -> None:
        self.all: list[SlaveLink] = []
        self.refused = Counter(dict.fromkeys(REFUSALS, 0))
        """Number of connections to the HA port that were refused, by cause."""
        self.limit = TransferLimit()
        self.growth = LogGrowth()

    def add(self, link: SlaveLink) -> None:
        """Takes a slave in."""
        self.all.append(link)

    def remove(self, link: SlaveLink) -> None:
        """Forgets a slave whose connection has ended."""
        if link in self.all:
            self.all.remove(link)

    def keep(self, broker_ids: Collection[int]) -> None:
        """Forgets the slaves of other ids: they have to connect again before they count again."""
        self.all[:] = [link for link in self.all if link.broker_id in broker_ids]

    def in_sync(self, log_end: int, most_gap: int) -> int:
        """Counts the slaves that are in sync."""
        return sum(link.is_in_sync(log_end, most_gap) for link in self.all)

    def reached_by(self, slaves: int) -> int:
        """The physical offset up to which so many slaves hold the log; -1 where there are not so many."""
        if slaves == 1 == len(self.all):
            return self.all[0].acknowledged
        acknowledged = sorted((link.acknowledged for link in self.all), reverse=True)
        return acknowledged[slaves - 1] if 0 < slaves <= len(acknowledged) else -1
