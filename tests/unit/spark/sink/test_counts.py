from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.sink.counts import Counts, report, total


def test_counts_of_tasks_add_up_by_topic() -> None:
    first, second = Counts(), Counts(retries=1, already_there=2)
    first.stored("a", 10, 100, safe=True)
    first.stored("b", 1, 5, safe=False)
    second.stored("a", 2, 20, safe=True)
    summed = total([first, None, second])
    assert (summed.messages, summed.body_bytes, summed.requests) == (13, 125, 3)
    assert (summed.retries, summed.already_there, summed.not_yet_safe) == (1, 2, 1)
    assert {name: row.messages for name, row in summed.topics.items()} == {"a": 12, "b": 1}


def test_a_line_names_only_what_there_was() -> None:
    counts = Counts()
    counts.stored("orders", 1200, 1, safe=True)
    assert str(counts) == "1,200 messages, 1 byte, 1 request (orders 1,200)"
    counts.already_there = 3
    assert "3 already there" in str(counts)
    assert str(Counts()) == "0 messages, 0 bytes, 0 requests"


def test_a_report_is_a_line_on_standard_error_and_one_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counts()
    counts.stored("orders", 2, 7, safe=True)
    path = tmp_path / "new" / "counts.jsonl"
    report(counts, batch_id=4, outcome="written", counts_file=str(path))
    report(Counts(), batch_id=None, outcome="aborted", counts_file=str(path))
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("orbitmq batch 4 written: 2 messages")
    assert second.startswith("orbitmq aborted: 0 messages")
    written, aborted = map(json.loads, path.read_text().splitlines())
    assert (written["batchId"], written["outcome"], written["messages"]) == (4, "written", 2)
    assert written["topics"] == {"orders": {"messages": 2, "body_bytes": 7}}
    assert (aborted["batchId"], aborted["outcome"]) == (None, "aborted")
