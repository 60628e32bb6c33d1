from pathlib import Path

from orbitmq.store.files import RealDisk
from orbitmq.store.recovery.checkpoint import Checkpoint, mark_of, vouching_for


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


def test_a_copy_vouches_for_the_index_it_has(tmp_path: Path) -> None:
    checkpoint = Checkpoint(RealDisk(), tmp_path / "checkpoint")
    checkpoint.physical_timestamp_ms = 9_000
    checkpoint.logics_timestamp_ms = 3_000
    checkpoint.index_timestamp_ms = 5_000
    for end_ms, vouched_ms in ((7_000, 7_000), (4_000, 5_000)):
        (tmp_path / "checkpoint").write_bytes(vouching_for(checkpoint.to_bytes(), end_ms))
        copy = Checkpoint.load(RealDisk(), tmp_path / "checkpoint")
        times = (copy.physical_timestamp_ms, copy.logics_timestamp_ms, copy.index_timestamp_ms)
        assert times == (9_000, 3_000, vouched_ms)
        assert mark_of(copy.to_bytes()) == copy.mark
    assert vouching_for(b"torn", 1) == b"torn"


def test_its_mark_is_that_of_what_was_written_last(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(RealDisk(), path)
    checkpoint.physical_timestamp_ms = 5
    checkpoint.save()
    checkpoint.physical_timestamp_ms = 6  # a flush that ended since
    assert checkpoint.mark == Checkpoint.load(RealDisk(), path).mark == mark_of(path.read_bytes())
