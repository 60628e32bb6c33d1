"""A lake of Parquet files that holds every message once: what `orbitmq job archive` writes.

    LAKE/topic=orders/date=2026-01-31/broker-a-0-<from>-<to>.parquet    messages, by topic and day (UTC)
    LAKE/_manifests/<number>.json             one per commit: offsets and files, together
    LAKE/_manifests/<number>.snapshot.json    what all manifests up to a number come to
    LAKE/_staged/<run>/...                    files of a batch that is not committed yet

A manifest is the one truth: it says which offsets the lake holds and in which files, and it comes into being
by one atomic step. A file gets its place beside the others only after the manifest that names it is on the
disk, and whoever opens the lake to write finishes what a crash left half done. So whoever follows the
manifests (`read_lake`) sees every message once at any time, and whoever merely lists the folders never sees
one twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.spark.lake.reading import read_lake

__all__ = ["read_lake"]


def __getattr__(name: str) -> object:
    if name == "read_lake":
        from orbitmq.spark.lake.reading import read_lake

        return read_lake
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
