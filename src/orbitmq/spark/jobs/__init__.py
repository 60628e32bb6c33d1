"""Jobs over topics and stores: each is functions from data frames to data frames, and a command of it.

`orbitmq job NAME` runs one. A job is a row of `JOBS` and a module; `orbitmq.spark.jobs.job` is what all of
them stand on. Nothing here imports PySpark: help and completion work without it.
"""

from __future__ import annotations

JOBS: dict[str, tuple[str, str]] = {
    "archive": ("orbitmq.spark.jobs.archive.command:archive", "Topics to a Parquet lake, exactly once"),
    "search": ("orbitmq.spark.jobs.search.command:search", "Find messages by key, id, property or text"),
    "audit": ("orbitmq.spark.jobs.audit.command:audit", "Whether the files of stores are sound and agree"),
    "dlq": ("orbitmq.spark.jobs.dlq.command:dlq", "Dead letters: what they are, kept for good, sent again"),
    "replay": ("orbitmq.spark.jobs.replay:replay", "Messages of a topic or a lake once more to a topic"),
    "dedup": ("orbitmq.spark.jobs.dedup:dedup", "Messages once by business key, and what came repeatedly"),
    "trace": ("orbitmq.spark.jobs.trace:trace", "Latencies, slow consumers, failures, and a message's life"),
    "lag": ("orbitmq.spark.jobs.lag:lag", "How far consumer groups are behind, over time"),
    "availability": (
        "orbitmq.spark.jobs.availability:availability",
        "Nines, MTBF and MTTR as clients see them",
    ),
}
"""Name of the command -> `module:attribute` of its click command, and the line that `--help` shows."""
