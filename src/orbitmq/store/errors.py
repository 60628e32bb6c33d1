"""Errors of a data folder, with advice to the operator.

StoreError
├── StoreLocked        another process, or another store of this one, works in the folder
├── StoreCorrupt       files that are there but cannot be what they have to be
├── StoreUnsupported   files of features that this store does not have
├── StoreUnavailable   the store takes no writes any more, or is closed
├── FlushFailed        the disk did not take what was written; never tried again as if it had
├── DiskStalled        the disk does not answer, and more would wait for it; it may come back
├── NotTheMasters      bytes for a slave's log that cannot be the continuation of it
│   └── GapTooWide     a record that would have a queue filled up with units of nothing
└── CannotTruncate     the log has nothing left where it was to end
"""

from __future__ import annotations

from pathlib import Path

from orbitmq.protocol.errors import OrbitError


class StoreError(OrbitError):
    """Base of all errors that the store raises on purpose."""


class StoreLocked(StoreError):
    """Somebody else works in the folder."""

    def __init__(self, root: Path, owner: str) -> None:
        super().__init__(root, owner)
        self.root = root
        self.owner = owner

    def __str__(self) -> str:
        return f"{self.root} is in use by {self.owner}; stop it, or choose another data folder"


class StoreCorrupt(StoreError):
    """A file or folder is not what it has to be: `path`, what is wrong, and what to do."""

    def __init__(self, path: Path, what: str, what_to_do: str) -> None:
        super().__init__(path, what, what_to_do)
        self.path = path
        self.what = what
        self.what_to_do = what_to_do

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.what_to_do}"


class StoreUnavailable(StoreError):
    """The store is closed, or has stopped taking writes."""


class FlushFailed(StoreError):
    """An fsync failed: what was written since the last good one may be lost, and is never acknowledged."""


class DiskStalled(StoreError):
    """The disk has not done for a while what it was asked, and more would have to wait for it."""


class CannotTruncate(StoreError):
    """The log begins behind the physical offset at which it was to end; nothing was changed."""


class NotTheMasters(StoreError):
    """Bytes that a slave was sent do not continue its log; nothing of them was stored."""


class GapTooWide(NotTheMasters):
    """A record whose queue offset lies too far behind the end of its queue: the units in between would fill
    memory and disk.
    """

    def __init__(self, queue: object, missing: int, physical_offset: int) -> None:
        super().__init__(
            f"the record at {physical_offset} leaves out {missing:,} offsets of {queue}, and units for so "
            "many are not made. No sound log has such a gap: see that the address is your master's; if it "
            "is, make this slave from a copy of the master's data folder"
        )
        self.physical_offset = physical_offset
