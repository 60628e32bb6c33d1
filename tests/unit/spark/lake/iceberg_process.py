"""An archive to an Iceberg table without Spark; as a process, one that dies in a commit.

`python -m tests.unit.spark.lake.iceberg_process FOLDER STORE PLACE`: `PLACE` is one of `PLACES`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orbitmq.spark.jobs.archive import running
from orbitmq.spark.jobs.archive.running import ArchiveOptions, ArchiveResult, run
from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.lake.iceberg import IcebergLocation
from tests.spark.archive_process import WithoutSpark

PLACES = ("before the catalog", "after the catalog")


def location(folder: Path) -> IcebergLocation:
    """A table in a catalog on SQLite, with all its files in a folder."""
    (folder / "warehouse").mkdir(exist_ok=True)
    options = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return IcebergLocation.parse("test.events.orders", options, {})


def in_this_process(_: object, act: Callable[[Any], Written], works: Sequence[Any]) -> list[Written]:
    """Stands in for Spark; results travel as they do from its workers."""
    return [Written.from_json(act(work).to_json()) for work in works]


def archive(folder: Path, store: Path, *topics: str, columns: tuple[str, ...] = ()) -> ArchiveResult:
    """All of a store's topics that are named, `orders` if none is."""
    return run(
        ArchiveOptions(
            location(folder),
            topics or ("orders",),
            store=str(store),
            broker_name="broker-a",
            setup=WithoutSpark(),
            columns=columns,
        )
    )


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, store, place = sys.argv[1:]
    running.run_tasks = in_this_process
    catalog: Any = type(location(Path(folder)).connect())
    commit = catalog.commit_table
    if place == PLACES[0]:
        # The new metadata is written, and nobody knows it yet.
        write = catalog._write_metadata
        catalog._write_metadata = staticmethod(lambda *given, **named: (write(*given, **named), die()))
    else:
        catalog.commit_table = lambda *given: (commit(*given), die())
    archive(Path(folder), Path(store))


if __name__ == "__main__":
    main()
