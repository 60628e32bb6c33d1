"""Jobs over topics and stores: each is functions from data frames to data frames, and a command of it.

`orbitmq job NAME` runs one. A job is a row of `JOBS` and a module; `orbitmq.spark.jobs.job` is what all of
them stand on. Nothing here imports PySpark: help and completion work without it.
"""

from __future__ import annotations

JOBS: dict[str, tuple[str, str]] = {}
"""Name of the command -> `module:attribute` of its click command, and the line that `--help` shows."""
