"""The folder that samples are kept in, and the loop that takes them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.spark.jobs import sampling
from orbitmq.spark.jobs.failures import JobFailed
from orbitmq.spark.jobs.sampling import SampleTable, sample
from orbitmq.spark.jobs.ui import QUIET
from orbitmq.testing.simulation.loop import VirtualLoop

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.parquet"))


def test_rows_become_whole_files(tmp_path: Path) -> None:
    table = SampleTable(tmp_path / "new" / "folder", SCHEMA, file_seconds=3600)
    table.add([{"n": 1, "text": "a"}])
    assert files(tmp_path / "new" / "folder") == [], "a file is made now and then only"
    table.add([{"n": 2}])
    table.flush()
    table.flush()
    (file,) = files(tmp_path / "new" / "folder")
    assert pq.read_table(file).to_pylist() == [{"n": 1, "text": "a"}, {"n": 2, "text": None}]
    assert table.rows == 2
    assert os.listdir(tmp_path / "new" / "folder") == [file.name]


def test_a_file_each_time_when_it_is_time(tmp_path: Path) -> None:
    table = SampleTable(tmp_path, SCHEMA, file_seconds=0)
    for n in range(3):
        table.add([{"n": n}])
    assert len(files(tmp_path)) == 3


def test_the_last_file_of_an_earlier_run(tmp_path: Path) -> None:
    assert SampleTable(tmp_path, SCHEMA).last() == []
    for n in range(2):
        table = SampleTable(tmp_path, SCHEMA)
        table.add([{"n": n, "text": "t"}])
        table.flush()
    (tmp_path / "_9-unfinished.parquet").write_bytes(b"PAR1")
    assert SampleTable(tmp_path, SCHEMA).last() == [{"n": 1, "text": "t"}]


def test_a_value_is_found_in_every_file_of_the_table(tmp_path: Path) -> None:
    for text in ("first", "second"):
        table = SampleTable(tmp_path, SCHEMA)
        table.add([{"text": text}])
        table.flush()
    assert [table.holds("text", text) for text in ("first", "second", "third")] == [True, True, False]
    (tmp_path / "1-1-1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(JobFailed, match=r"1-1-1.parquet is damaged"):
        table.holds("text", "third")


def test_what_a_crash_left_unfinished_is_taken_away_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    for name in ("_1-left.parquet", "_2-new.parquet"):
        (tmp_path / name).write_bytes(b"PAR1")
    os.utime(tmp_path / "_1-left.parquet", (0, 0))
    SampleTable(tmp_path, SCHEMA)
    assert os.listdir(tmp_path) == ["_2-new.parquet"]


def test_a_row_that_does_not_fit_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    table = SampleTable(tmp_path, SCHEMA, file_seconds=3600)
    table.add([{"n": "no number"}])
    with pytest.raises(pa.ArrowInvalid):
        table.flush()
    assert os.listdir(tmp_path) == []


class Looks:
    """Counts looks and the end."""

    def __init__(self, act: object = None) -> None:
        self.taken = 0
        self.closed = 0
        self.act = act

    async def look(self) -> str:
        self.taken += 1
        if callable(self.act):
            self.act(self.taken)
        return "fine"

    async def close(self) -> None:
        self.closed += 1


def test_so_many_samples(tmp_path: Path) -> None:
    looks = Looks()
    assert sample(looks.look, QUIET, "w", every_s=0.001, samples=3, close=looks.close) == 3
    assert (looks.taken, looks.closed) == (3, 1)


def test_ctrl_c_ends_it_in_good_order() -> None:
    def act(taken: int) -> None:
        if taken == 3:
            os.kill(os.getpid(), signal.SIGINT)

    looks = Looks(act)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        taken = sample(looks.look, QUIET, "w", every_s=0.001, samples=None, close=looks.close)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 2 <= taken <= looks.taken <= 4
    assert looks.closed == 1


def test_an_error_is_not_hidden() -> None:
    def act(taken: int) -> None:
        raise OSError("the disk is gone")

    looks = Looks(act)
    with pytest.raises(OSError, match="the disk is gone"):
        sample(looks.look, QUIET, "w", every_s=0.001, samples=None, close=looks.close)
    assert looks.closed == 1


def test_slow_looks_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look that took many intervals the next one is not followed by all that were missed."""
    # The clock of this loop stands still while work is done: times are those of the pauses alone.
    loop = VirtualLoop(random.Random(1))
    monkeypatch.setattr(sampling.asyncio, "run", loop.run_until_complete)
    times: list[float] = []

    async def look() -> str:
        loop = asyncio.get_running_loop()
        times.append(loop.time())
        if len(times) == 1:
            await asyncio.sleep(0.35)
        return ""

    async def close() -> None:
        pass

    with contextlib.closing(loop):
        sample(look, QUIET, "w", every_s=0.1, samples=3, close=close)
    # The second look's turn is the next one after the first look; the third's is an interval later.
    assert [time - times[0] for time in times] == pytest.approx([0, 0.4, 0.5])
