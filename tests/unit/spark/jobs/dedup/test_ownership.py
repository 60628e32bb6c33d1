"""Checkpoints and lakes of another job are refused. `test_bad_jobs` has what the command says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.ownership import claim, need_lake
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.lake.storage import LakeLocation


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    setup = JobSetup(checkpoint=str(tmp_path / "c"))
    mine = DedupOptions(("a", "b"), setup, to_lake="lake")
    checkpoint = LakeLocation(str(tmp_path / "c")).open()
    write_id = claim(checkpoint, mine)
    assert claim(checkpoint, DedupOptions(("b", "a"), setup, to_lake="lake", window_ms=1)) == write_id
    (tmp_path / "c" / "offsets").mkdir()
    (tmp_path / "c" / "offsets" / "0").touch()
    for other in (
        DedupOptions(("a",), setup, to_lake="lake"),
        DedupOptions(("a", "b"), setup, key="msgId", to_lake="lake"),
        DedupOptions(("a", "b"), setup, to_lake="other"),
        DedupOptions(("a", "b"), setup, to_topic="lake"),
    ):
        with pytest.raises(JobFailed, match="of another job"):
            claim(checkpoint, other)
    (tmp_path / "c" / "offsets" / "0").unlink()
    corrected = DedupOptions(("a",), setup, to_lake="lake")
    assert claim(checkpoint, corrected) == claim(checkpoint, corrected) != write_id
    (tmp_path / "foreign" / "offsets").mkdir(parents=True)
    with pytest.raises(JobFailed, match="not one of this job"):
        claim(LakeLocation(str(tmp_path / "foreign")).open(), mine)


def test_an_unfinished_note_is_replaced(tmp_path: Path) -> None:
    """The first claim may have been killed before its note had its name."""
    setup = JobSetup(checkpoint=str(tmp_path))
    (tmp_path / ".dedup.json.0123").write_text("{")
    checkpoint = LakeLocation(str(tmp_path)).open()
    write_id = claim(checkpoint, DedupOptions(("a",), setup, to_lake="lake"))
    assert claim(checkpoint, DedupOptions(("a",), setup, to_lake="lake")) == write_id


def test_a_lake_may_be_new_or_empty_or_hold_the_checkpoint_alone(tmp_path: Path) -> None:
    need_lake(str(tmp_path / "new"), str(tmp_path / "c"), begun=False)
    need_lake(str(tmp_path), str(tmp_path / "c"), begun=False)
    (tmp_path / "c").mkdir()
    need_lake(str(tmp_path), str(tmp_path / "c"), begun=False)
    (tmp_path / "other").mkdir()
    with pytest.raises(JobFailed, match="holds other things, as other"):
        need_lake(str(tmp_path), str(tmp_path / "c"), begun=False)
