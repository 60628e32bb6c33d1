"""Jobs over topics and stores: each is functions from data frames to data frames, and a command of it.

`orbitmq job NAME` runs one. A job is a row of `JOBS` and a module; `orbitmq.spark.jobs.job` has
the parts that all of them share. Nothing here imports PySpark: help and completion work without it.
"""

from __future__ import annotations

JOBS: dict[str, tuple[str, str]] = {
    "archive": ("orbitmq.spark.jobs.archive.command:archive", "Copy topics to a Parquet lake, exactly once"),
    "search": ("orbitmq.spark.jobs.search.command:search", "Find messages by key, id, property or text"),
    "audit": ("orbitmq.spark.jobs.audit.command:audit", "Check that the files of stores are sound and agree"),
    "dlq": ("orbitmq.spark.jobs.dlq.command:dlq", "Report dead letters, archive them, send them again"),
    "replay": ("orbitmq.spark.jobs.replay:replay", "Send messages of a topic or a lake again, to a topic"),
    "dedup": (
        "orbitmq.spark.jobs.dedup.command:dedup",
        "Forward one message per business key, or report repeats",
    ),
    "trace": ("orbitmq.spark.jobs.trace:trace", "Report latencies, slow consumers and failures from traces"),
    "lag": ("orbitmq.spark.jobs.lag:lag", "Report the lag of consumer groups over time"),
    "availability": (
        "orbitmq.spark.jobs.availability:availability",
        "Report availability, MTBF and MTTR as clients see them",
    ),
}
"""Name of the command -> `module:attribute` of its click command, and the line that `--help` shows."""
