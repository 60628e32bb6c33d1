"""Files of a commit log, and the parts of them that tasks read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class LogFile:
    """One file of a commit log."""

    folder: str
    """Path or URL of the folder it is in."""
    name: str
    start: int
    """Physical offset of its first byte."""
    size: int

    @property
    def is_local(self) -> bool:
        """True if the file may still be written to; objects in a store are complete."""
        return "://" not in self.folder


@dataclass(slots=True, frozen=True)
class LogRange:
    """A part of a file: the records that begin at positions [begin, end)."""

    file: LogFile
    begin: int
    end: int
    may_end: bool
    """Nothing is known to be written behind: zeros are where the log ends, not damage."""
    broker_name: str | None = None

    def __len__(self) -> int:
        return self.end - self.begin
