"""Store directories as data frames, without a broker: `spark.read.format("orbitmq").load("/store")`.

A store is read as its files are, of OrbitMQ or of Apache, live, stopped, a backup or a snapshot, on a disk
or in object storage. `planning` cuts the commit log into ranges that begin where a record does; `scanning`
turns a range into Arrow batches and says what is bad in it. Files are read and nothing else: nothing is
locked, repaired or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.spark.offline.reader import OfflineReader, offline_ddl, offline_reader

__all__ = ["OfflineReader", "offline_ddl", "offline_reader"]


def __getattr__(name: str) -> Any:
    # Every session imports the source; PySpark's reader classes come with the first store.
    if name in __all__:
        from orbitmq.spark.offline import reader

        return getattr(reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
