from pathlib import Path

from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.files import RealDisk


def test_recovery_begins_three_seconds_before_the_older_time(tmp_path: Path) -> None:
    checkpoint = Checkpoint(RealDisk(), tmp_path / "checkpoint")
    assert checkpoint.dispatch_time_ms == 0
    checkpoint.physical_timestamp_ms, checkpoint.logics_timestamp_ms = 10_000, 9_000
    assert checkpoint.dispatch_time_ms == 6_000


def test_a_checkpoint_that_is_cut_off_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\x00\x01\x02")
    assert Checkpoint.load(RealDisk(), tmp_path / "checkpoint").physical_timestamp_ms == 0


def test_impossible_times_count_as_zero(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\xff" * 4096)
    assert Checkpoint.load(RealDisk(), tmp_path / "checkpoint").dispatch_time_ms == 0


def test_saving_twice_writes_once(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(RealDisk(), path)
    checkpoint.logics_timestamp_ms = 5
    checkpoint.save()
    path.unlink()
    checkpoint.save()
    assert not path.exists()
    checkpoint.logics_timestamp_ms = 6
    checkpoint.save()
    assert Checkpoint.load(RealDisk(), path).mark == checkpoint.mark
