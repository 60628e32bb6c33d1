"""The confirm offset: up to where the log is as safe as the broker promises. Readers see no further.

Under SYNC_FLUSH it does not pass what is on the disk, with replicas to wait for what enough of them hold;
else it is the end of the log. It never goes back, but with a log that is cut: what was seen stays seen.
"""

from __future__ import annotations

from orbitmq.store.log.commit_log import CommitLog


class Confirm:
    """The offset and what holds it back."""

    __slots__ = ("_log", "_reached", "replicated", "waits_for_disk")

    def __init__(self, commit_log: CommitLog, waits_for_disk: bool) -> None:
        self._log = commit_log
        self.waits_for_disk = waits_for_disk
        self.replicated: int | None = None
        """The physical offset up to which enough replicas hold the log; None where none has to."""
        self._reached = 0

    @property
    def is_held(self) -> bool:
        """True if it may be before the end of the log."""
        return self.waits_for_disk or self.replicated is not None

    @property
    def offset(self) -> int:
        """The physical offset up to which the promise holds."""
        replicated = self.replicated
        if self.waits_for_disk:
            reached = self._log.durable
        else:
            reached = self._log.max_physical
            if replicated is None:
                return reached  # before anything holds it back, `begin` is called
        if replicated is not None and replicated < reached:
            reached = replicated
        if reached > self._reached:
            self._reached = reached
        return self._reached

    def cut_to(self, physical_offset: int) -> None:
        """Goes back with a log that has been cut: the one time that it does."""
        self._reached = min(self._reached, physical_offset)

    def begin(self) -> None:
        """Counts everything that is in the log as confirmed: it was read at the start, or seen already."""
        self._reached = self._log.max_physical
