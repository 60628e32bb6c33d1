"""The epochs of a commit log: which master's reign began where (controller mode).

Two logs are the same up to the end of the last epoch that both have, at the same offset: a master appends to
no epoch but its own, and there is one master for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from zlib import crc32

from orbitmq.protocol.epoch_replication import MAX_EPOCHS, Epoch
from orbitmq.protocol.errors import Malformed


class BadEpochs(Malformed):
    """Epochs that cannot be those of one log, or a file of them that is damaged."""


class Epochs:
    """The epochs of this broker's log, oldest first: numbers and offsets only grow."""

    def __init__(self, entries: Iterable[Epoch] = ()) -> None:
        self.entries: list[Epoch] = []
        for entry in entries:
            self.append(entry)

    @classmethod
    def from_text(cls, text: str) -> Epochs:
        """Reads `epochFileCheckpoint`: the number of lines, their CRC-32, and `epoch-offset` lines.

        Raises BadEpochs.
        """
        lines = text.split("\n")
        try:
            count, checksum = int(lines[0]), int(lines[1])
            rows = lines[2 : 2 + count]
            entries = [Epoch(*map(int, row.split("-"))) for row in rows]
        except (ValueError, IndexError, TypeError):
            raise BadEpochs("the file of epochs is damaged") from None
        if len(rows) != count or _checksum(rows) != checksum:
            raise BadEpochs("the file of epochs is damaged: its checksum does not fit")
        return cls(entries)

    def to_text(self) -> str:
        """The content of `epochFileCheckpoint`."""
        rows = [f"{entry.number}-{entry.start}" for entry in self.entries]
        return "\n".join([str(len(rows)), str(_checksum(rows)), *rows, ""])

    @property
    def last(self) -> int:
        """Number of the newest epoch; 0 without one."""
        return self.entries[-1].number if self.entries else 0

    def append(self, entry: Epoch) -> None:
        """Begins an epoch. One at the place of the last one, of which nothing was stored, replaces it.

        Raises BadEpochs for one that does not come behind the last one.
        """
        if len(self.entries) >= MAX_EPOCHS:
            raise BadEpochs(f"a log has {MAX_EPOCHS} epochs at most")
        if self.entries:
            last = self.entries[-1]
            if entry.number <= last.number or entry.start < last.start:
                raise BadEpochs(
                    f"epoch {entry.number} at {entry.start} cannot follow epoch {last.number} at {last.start}"
                )
        elif entry.number < 0 or entry.start < 0:
            raise BadEpochs(f"there is no epoch {entry.number} at {entry.start}")
        self.entries.append(entry)

    def with_epoch(self, entry: Epoch) -> Epochs:
        """A copy in which an epoch has begun. Raises what `append` does."""
        longer = Epochs(self.entries)
        longer.append(entry)
        return longer

    def truncate(self, log_end: int) -> bool:
        """Forgets epochs that begin at or behind the end of a log that was cut; True if there were any."""
        kept = [entry for entry in self.entries if entry.start < log_end]
        changed = len(kept) != len(self.entries)
        self.entries = kept
        return changed

    def at(self, physical_offset: int) -> tuple[Epoch, int | None]:
        """The epoch of the bytes at an offset, and where it ends; None for the newest one.

        Bytes before the first epoch count to it: the log of a broker that had a fixed role before.
        Raises BadEpochs without any epoch.
        """
        entries = self.entries
        if not entries:
            raise BadEpochs("this log has no epochs: its broker was never master")
        # Of epochs that begin at one place all but the last are empty.
        index = max(0, bisect_right(entries, physical_offset, key=lambda entry: entry.start) - 1)
        following = entries[index + 1].start if index + 1 < len(entries) else None
        return entries[index], following

    def common_end(self, log_end: int, others: Sequence[Epoch], others_end: int) -> int | None:
        """The physical offset up to which this log and another one are the same; None where they have no
        epoch in common. `log_end` and `others_end` are the ends of the two logs.
        """
        theirs = {entry: _end(others, index, others_end) for index, entry in enumerate(others)}
        for index in range(len(self.entries) - 1, -1, -1):
            end = theirs.get(self.entries[index])
            if end is not None:
                return min(end, _end(self.entries, index, log_end))
        return None


def _end(entries: Sequence[Epoch], index: int, log_end: int) -> int:
    return entries[index + 1].start if index + 1 < len(entries) else log_end


def _checksum(rows: Iterable[str]) -> int:
    return crc32("".join(f"{row}\n" for row in rows).encode()) & 0x7FFFFFFF
