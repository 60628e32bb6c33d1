import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.errors import BadOption
from orbitmq.spark.stream.progress import ProgressListener, QueueProgress, commit_progress, queue_progress


def progress(**source: object) -> dict[str, object]:
    return {"durationMs": {"triggerExecution": 2000}, "sources": [source]}


def test_lag_and_rate_of_every_queue() -> None:
    told = progress(
        startOffset='{"t": {"a|0": 10}}',
        endOffset='{"t": {"a|0": 30, "a|1": 4}}',
        latestOffset={"t": {"a|0": 35, "a|1": 4}},
    )
    assert queue_progress(told) == [
        QueueProgress("t", "a|0", 10, 30, 35, 10.0),
        QueueProgress("t", "a|1", 0, 4, 4, 2.0),  # it was not there at the start
    ]
    assert [one.lag for one in queue_progress(told)] == [5, 0]


def test_the_first_micro_batch_has_no_start() -> None:
    told = progress(startOffset=None, endOffset='{"t": {"a|0": 30}}', latestOffset=None)
    assert queue_progress(told) == [QueueProgress("t", "a|0", None, 30, 30, None)]


@pytest.mark.parametrize("end", [None, "17", '{"t": {"0": 30}}', '{"t": 1}', "no json", '{"logOffset": 1}'])
def test_sources_of_others_are_passed_over(end: object) -> None:
    assert queue_progress(progress(endOffset=end)) == []


def test_without_a_group_there_is_nothing_to_commit_under() -> None:
    for commit in (lambda given: commit_progress(None, given), ProgressListener):
        with pytest.raises(BadOption, match="groupId is not set"):
            commit({"subscribe": "t"})


def test_without_a_progress_there_is_nothing_to_commit() -> None:
    assert commit_progress(None, {"subscribe": "t", "groupId": "g"})
