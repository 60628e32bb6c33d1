"""A job that only reads, in a process of its own, to be killed: `python -m tests.spark.reading_process ...`.

Its words are the job, what it looks at, and its checkpoint. Pieces are small, and one is looked at at a time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from orbitmq.spark.jobs.audit.auditing import AuditOptions, AuditResult
from orbitmq.spark.jobs.audit.auditing import run as run_audit
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.search.matching import Wanted
from orbitmq.spark.jobs.search.running import SearchOptions, SearchResult
from orbitmq.spark.jobs.search.running import run as run_search
from orbitmq.spark.lake.storage import LakeLocation


def audit(setup: JobSetup, store: str) -> AuditResult:
    """Log and queues of a store, a file of the log at a time."""
    return run_audit(AuditOptions((store,), setup, ("records", "queues"), split_bytes=20_000))


def search(setup: JobSetup, lake: str) -> SearchResult:
    """Rows of a lake with a text."""
    options = SearchOptions(Wanted(text="order"), (), LakeLocation(lake), live=False, limit=1000, setup=setup)
    return run_search(options)


def told(result: AuditResult | SearchResult) -> Any:
    """Content of a result, whatever order Spark has found it in."""
    if isinstance(result, SearchResult):
        return [[*one.name, one.keys, one.body.decode()] for one in result.messages]
    key = json.dumps
    return [sorted(result.findings, key=key), sorted(result.counts, key=key), result.summary]


def main() -> None:
    job, where, checkpoint = sys.argv[1:]
    conf = (("spark.sql.shuffle.partitions", "2"),)
    setup = JobSetup(master="local[1]", memory="512m", conf=conf, checkpoint=checkpoint)
    {"audit": audit, "search": search}[job](setup, where)


if __name__ == "__main__":
    main()
