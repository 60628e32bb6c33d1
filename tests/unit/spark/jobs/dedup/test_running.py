"""Runs of `dedup` that cannot be. `tests/spark/test_dedup.py` has those that can."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.running import DedupResult, run
from orbitmq.spark.jobs.job import JobFailed, JobSetup


@pytest.mark.parametrize("to", [{}, {"to_topic": "a"}, {"to_topic": "b", "to_lake": "c"}])
def test_targets_that_cannot_be(to: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(JobFailed):
        run(DedupOptions(("a",), JobSetup(checkpoint=str(tmp_path)), **to))


def test_a_run_needs_a_checkpoint() -> None:
    with pytest.raises(JobFailed, match="needs a checkpoint"):
        run(DedupOptions(("a",), to_lake="lake"))


def test_all_messages_but_repeats_are_written() -> None:
    assert DedupResult(read=10, repeats=3).written == 7
