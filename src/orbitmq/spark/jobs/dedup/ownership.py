"""Checkpoints and lakes belong to one job: a run of `dedup` refuses those of another."""

from __future__ import annotations

import json
import uuid

from orbitmq.spark.folders import local_path
from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.job import JobFailed
from orbitmq.spark.jobs.preflight import SPARK_LOG, is_begun, names_towards, was_written
from orbitmq.spark.lake.storage import Storage

NOTE = "dedup.json"
"""File in a checkpoint that names the job it belongs to."""


def claim(checkpoint: Storage, options: DedupOptions) -> str:
    """Notes in a checkpoint the job it belongs to, and returns the id of the write.

    Raises JobFailed for the checkpoint of another job.
    """
    url = options.setup.checkpoint
    mine = {
        "topics": sorted(options.topics),
        "key": options.key,
        "to": f"topic {options.to_topic}" if options.to_topic else f"lake {options.to_lake}",
    }
    try:
        found = json.loads(checkpoint.read(NOTE))
        write_id = str(found.pop("writeId"))
    except FileNotFoundError:
        if any(name[0] != "." for name in checkpoint.names("")):
            raise JobFailed(
                f"the checkpoint {url} is not one of this job: give it a folder of its own"
            ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JobFailed(f"{url}/{NOTE} is damaged, or no note of this job: {error!r}") from None
    else:
        other = next((name for name, value in mine.items() if found.get(name) != value), None)
        if other is None:
            return write_id
        # After a mistake in the first command there is nothing to lose.
        if is_begun(checkpoint):
            raise JobFailed(
                f"the checkpoint {url} is of another job: {other} was {found.get(other)} there and "
                f"is {mine[other]} here; give this one a checkpoint of its own"
            )
    write_id = uuid.uuid4().hex
    unfinished = f".{NOTE}.{write_id}"
    with checkpoint.open_write(unfinished) as file:
        file.write(json.dumps(mine | {"writeId": write_id}).encode())
        checkpoint.finish(file)
    checkpoint.move(unfinished, NOTE)
    return write_id


def need_lake(url: str, checkpoint: str, *, begun: bool) -> None:
    """Raises JobFailed for a folder of this machine that holds anything but what this job has written.

    The checkpoint may lie in it, and `begun` says whether it has a batch.
    """
    if url.rstrip("/") == checkpoint.rstrip("/"):
        raise JobFailed(f"{url} cannot be the lake and the checkpoint: give each a folder of its own")
    folder = local_path(url)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise JobFailed(f"{url} is no folder")
    names = {path.name for path in folder.iterdir() if path.name[0] != "."}
    if "_manifests" in names:
        raise JobFailed(f"{url} is a lake of `orbitmq job archive`: give --to-lake a folder of its own")
    names -= names_towards(folder, local_path(checkpoint))
    # Days without a log are another program's, and none of Spark's readers would see them beside a log.
    ours = {name for name in names if name == SPARK_LOG or name.startswith("day=")}
    strange = sorted(names - ours if SPARK_LOG in names else names)
    if strange:
        raise JobFailed(f"{url} holds other things, as {strange[0]}: give --to-lake a folder of its own")
    if was_written(folder) and not begun:
        raise JobFailed(
            f"{url} was written with another checkpoint: go on with that one, or give --to-lake a new folder"
        )
