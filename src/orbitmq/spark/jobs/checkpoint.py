"""Pieces that a read-only job has finished, for the run after a crash.

Such a job looks at pieces, in the driver or in workers, and makes rows of each. With `--checkpoint` the rows
go into a folder, a file per piece, which is there whole or not at all. The run after a crash takes them from
there and looks at the other pieces only. A piece is known by a name that says what is in it, so one that has
changed meanwhile is looked at again. A run that gets to its end takes all of it away: the next one looks at
everything anew.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orbitmq.spark.folders import local_path
from orbitmq.spark.jobs.failures import JobFailed
from orbitmq.spark.lake.storage import LOCK, LakeLocation, Storage

if TYPE_CHECKING:
    import pyarrow as pa

ASKED = "asked.json"
PIECES = "pieces"
UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder; it travels to the workers, all of which have to see it."""

    location: LakeLocation

    def rows(
        self, piece: str, schema: pa.Schema, look: Callable[[], Iterable[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Rows that `look` makes of a piece, or made in an earlier run. Raises OSError."""
        import pyarrow.parquet as pq

        storage = self.location.open()
        name = hashlib.sha256(f"{piece} {schema}".encode()).hexdigest()[:32]
        path = f"{PIECES}/{name}.parquet"
        if not storage.exists(path):
            # A task may run twice at a time: each has a file of its own.
            unfinished = f"{UNFINISHED}/{uuid.uuid4().hex}.parquet"
            with storage.open_write(unfinished) as file:
                with pq.ParquetWriter(file, schema) as writer:
                    for batch in look():
                        writer.write_batch(batch)
                storage.finish(file)
            storage.move(unfinished, path)
        with storage.open_read(path) as file:
            yield from pq.ParquetFile(file).iter_batches()


@contextmanager
def checkpoint(
    url: str | None, job: str, asked: Mapping[str, Any], *, beside: Iterable[LakeLocation] = ()
) -> Iterator[Checkpoint | None]:
    """The checkpoint at a folder or URL, for as long as the job works; None without one.

    `asked` is what the rows depend on besides the pieces. Options of fsspec for the places that the job reads
    `beside` hold for a checkpoint in the same storage, too. Raises JobFailed for a folder that holds
    something else, BadOption, LakeBusy where another run is at it, OSError.
    """
    if url is None:
        yield None
        return
    path = local_path(url)
    if path is None:
        scheme = url.partition("://")[0]
        known = (place.options for place in beside if place.url.startswith(f"{scheme}://"))
        location = LakeLocation(url, next(known, {}))
    else:
        location = LakeLocation(str(path.absolute()))  # Workers have other current folders.
    storage = location.open()
    with storage.lock():
        _begin(storage, url, {"job": job, **asked})
        yield Checkpoint(location)
        for folder in (PIECES, UNFINISHED):
            storage.remove_tree(folder)
        storage.remove(ASKED)


def _begin(storage: Storage, url: str, asked: dict[str, Any]) -> None:
    asked = json.loads(json.dumps(asked))
    try:
        found = json.loads(storage.read(ASKED))
        other = sorted(key for key in {*asked, *found} if asked.get(key) != found.get(key))
    except FileNotFoundError:
        # A crash before anything was done leaves a draft, a worker that outlived its driver the folder.
        if any(name not in (LOCK, UNFINISHED) and name[0] != "." for name in storage.names("")):
            raise JobFailed(f"{url} holds other things: give the checkpoint a folder of its own") from None
        storage.create(ASKED, json.dumps(asked).encode())
        return
    except (ValueError, TypeError, AttributeError) as error:
        raise JobFailed(f"{url}/{ASKED} is no checkpoint of this job: {error!r}") from None
    if other and not storage.names(PIECES):
        # After a mistake in the first command there is nothing to lose.
        storage.remove(ASKED)
        storage.create(ASKED, json.dumps(asked).encode())
    elif other:
        what = ", ".join(other)
        raise JobFailed(f"{url} is the checkpoint of something else: {what} differ. Give this job its own")
    storage.remove_tree(UNFINISHED)
