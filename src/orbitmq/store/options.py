"""Options of a store: the values of its rows, with the folder as a path and whole units in a queue's file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from orbitmq.store.option_rows import StoreSettings

QUEUE_UNIT_BYTES = 20
_OWN = ("root", "sources", "unused")


@dataclass(kw_only=True)
class StoreOptions(StoreSettings):
    """The rows of `option_rows`, their defaults included, as the store reads them."""

    root: Path
    """storePathRootDir, the data folder."""

    def __post_init__(self) -> None:
        self.root = Path(self.root)
        # Whole units only; Apache rounds up as well.
        units = -(-self.mapped_file_size_consume_queue // QUEUE_UNIT_BYTES)
        self.mapped_file_size_consume_queue = units * QUEUE_UNIT_BYTES

    @property
    def sync_flush(self) -> bool:
        """True if a message counts as stored only once it is on the disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @classmethod
    def from_settings(cls, settings: Any, root: Path | None = None) -> StoreOptions:
        """The options out of loaded settings; `root` in place of their storePathRootDir."""
        values = {
            declared.name: getattr(settings, declared.name)
            for declared in fields(cls)
            if declared.name not in _OWN and hasattr(settings, declared.name)
        }
        return cls(root=root or Path(settings.store_path_root_dir), **values)
