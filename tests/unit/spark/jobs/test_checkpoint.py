"""Memory that a job that only reads keeps of the pieces that it has looked through."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from orbitmq.spark.jobs.checkpoint import ASKED, PIECES, UNFINISHED, Checkpoint, checkpoint
from orbitmq.spark.jobs.failures import JobFailed
from orbitmq.spark.jobs.search.live import stretches
from orbitmq.spark.lake.errors import LakeBusy
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.read.planning import Queue

SCHEMA = pa.schema([("n", pa.int64())])


class Crash(Exception):
    """The job goes no further."""


class Pieces:
    """Looks at pieces, and notes at which."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    def of(self, kept: Checkpoint | None, piece: str, schema: pa.Schema = SCHEMA) -> list[Any]:
        def look() -> Iterator[pa.RecordBatch]:
            self.looked_at.append(piece)
            for number in range(int(piece)):
                yield pa.record_batch({"n": [number]}, schema=schema)
            if piece == "13":
                raise Crash

        assert kept is not None
        return [n for batch in kept.rows(piece, schema, look) for n in batch.column("n").to_pylist()]


@pytest.fixture
def pieces() -> Pieces:
    return Pieces()


def crashed(folder: Path, pieces: Pieces, *names: str, **asked: Any) -> None:
    with contextlib.suppress(Crash), checkpoint(str(folder), "count", asked) as kept:
        for name in names:
            pieces.of(kept, name)
        raise Crash


def test_what_was_looked_at_is_not_looked_at_again(tmp_path: Path, pieces: Pieces) -> None:
    folder = tmp_path / "new" / "folder"
    crashed(folder, pieces, "0", "2", "3", limit=(1, 2))
    with checkpoint(str(folder), "count", {"limit": (1, 2)}) as kept:
        assert [pieces.of(kept, name) for name in ("0", "2", "3", "4")] == [
            [],
            [0, 1],
            [0, 1, 2],
            [0, 1, 2, 3],
        ]
    assert pieces.looked_at == ["0", "2", "3", "4"]


def test_a_piece_counts_once_all_of_it_was_looked_at(tmp_path: Path, pieces: Pieces) -> None:
    crashed(tmp_path, pieces, "2", "13")
    assert len(list((tmp_path / PIECES).iterdir())) == len(list((tmp_path / UNFINISHED).iterdir())) == 1
    crashed(tmp_path, pieces, "2", "13")
    assert pieces.looked_at == ["2", "13", "13"]
    assert len(list((tmp_path / UNFINISHED).iterdir())) == 1, "what the first crash left is gone"


def test_other_columns_make_another_piece(tmp_path: Path, pieces: Pieces) -> None:
    crashed(tmp_path, pieces, "2")
    with checkpoint(str(tmp_path), "count", {}) as kept:
        pieces.of(kept, "2", pa.schema([("n", pa.int32())]))
    assert pieces.looked_at == ["2", "2"]


def test_a_run_to_the_end_leaves_nothing_for_the_next(tmp_path: Path, pieces: Pieces) -> None:
    for _ in range(2):
        with checkpoint(str(tmp_path), "count", {}) as kept:
            pieces.of(kept, "2")
    assert pieces.looked_at == ["2", "2"]
    with checkpoint(str(tmp_path), "other", {"a": 1}):
        """The folder is anyone's now."""


def test_another_question_is_refused_and_leaves_all_as_it_is(tmp_path: Path, pieces: Pieces) -> None:
    crashed(tmp_path, pieces, "2", topic="a", limit=1)
    for job, asked, differ in (
        ("count", {"topic": "b", "limit": 1}, "topic"),
        ("count", {"topic": "a"}, "limit"),
        ("search", {"topic": "a", "limit": 1}, "job"),
    ):
        with pytest.raises(JobFailed, match=f": {differ} differ"), checkpoint(str(tmp_path), job, asked):
            pass
    crashed(tmp_path, pieces, "2", topic="a", limit=1)
    assert pieces.looked_at == ["2"]


def test_a_question_that_nothing_was_done_for_may_be_asked_anew(tmp_path: Path, pieces: Pieces) -> None:
    crashed(tmp_path, pieces, topic="odrers")
    crashed(tmp_path, pieces, "2", topic="orders")
    crashed(tmp_path, pieces, "2", topic="orders")
    assert pieces.looked_at == ["2"]


@pytest.mark.parametrize("text", ["", "[]", "\0", "3"])
def test_a_damaged_record_of_what_was_asked(tmp_path: Path, text: str) -> None:
    (tmp_path / ASKED).write_text(text)
    with pytest.raises(JobFailed, match="is no checkpoint of this job"), checkpoint(str(tmp_path), "c", {}):
        pass


def test_a_folder_of_something_else_is_let_alone(tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_text(json.dumps({}))
    with pytest.raises(JobFailed, match="holds other things"), checkpoint(str(tmp_path), "c", {}):
        pass
    assert (tmp_path / "replay.json").exists()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        checkpoint(str(tmp_path), "c", {}),
        pytest.raises(LakeBusy, match="another job"),
        checkpoint(str(tmp_path), "c", {}),
    ):
        pass


def test_workers_find_it_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with checkpoint("here", "c", {}) as kept:
        assert kept == Checkpoint(LakeLocation(str(tmp_path / "here")))
    with checkpoint(None, "c", {}) as none:
        assert none is None


def test_in_an_object_store(pieces: Pieces) -> None:
    pytest.importorskip("fsspec")
    url = "memory://checkpoint-test"
    with contextlib.suppress(Crash), checkpoint(url, "count", {}) as kept:
        pieces.of(kept, "2")
        raise Crash
    with checkpoint(url, "count", {}) as kept:
        assert pieces.of(kept, "2") == [0, 1]
    assert pieces.looked_at == ["2"]


def test_what_fsspec_is_told_of_the_places_holds_in_the_same_storage(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    places = [LakeLocation(str(tmp_path)), LakeLocation("memory://store", {"skip_instance_cache": True})]
    for url, options in (
        ("memory://beside-test", {"skip_instance_cache": True}),
        (str(tmp_path / "here"), {}),
    ):
        with checkpoint(url, "count", {}, beside=places) as kept:
            assert kept is not None
            assert kept.location.options == options


def test_stretches_of_queues_are_cut_at_the_same_places_later() -> None:
    a, b = Queue("t", "b", 0, "h:1"), Queue("t", "b", 1, "h:1")
    assert stretches({a: (0, 25), b: (3, 10)}, 20) == [
        {a: (0, 10), b: (3, 10)},
        {a: (10, 20)},
        {a: (20, 25)},
    ]
    assert stretches({a: (12, 31), b: (10, 10)}, 20) == [{a: (12, 20)}, {a: (20, 30)}, {a: (30, 31)}]
    assert stretches({a: (0, 3), b: (0, 1)}, 1)[0] == {a: (0, 1), b: (0, 1)}
    assert stretches({}, 20) == []
