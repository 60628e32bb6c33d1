from pathlib import Path

import pytest

from orbitmq.store.files import RealDisk
from orbitmq.store.queue.consume_queue import ConsumeQueue
from orbitmq.store.recovery.queue_checkpoint import FILE_NAME, QueueCheckpoint


def test_marks_come_back_as_they_were(tmp_path: Path) -> None:
    queue_checkpoint = QueueCheckpoint("cafe", 1, 2, 3, 4, 5, "20240101", 6, 7, {4: 8})
    queue = ConsumeQueue("%RETRY%G", 3, 7)
    queue.written_to = 9
    queue_checkpoint.save(RealDisk(), tmp_path, [queue, ConsumeQueue("T", 0), ConsumeQueue("T", 5)])
    queue_checkpoint.queues = {"%RETRY%G": {3: (7, 9)}, "T": {0: (0, 0), 5: (0, 0)}}
    assert QueueCheckpoint.load(RealDisk(), tmp_path, "cafe") == queue_checkpoint
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_marks_of_another_checkpoint_are_none(tmp_path: Path) -> None:
    QueueCheckpoint("cafe").save(RealDisk(), tmp_path, [])
    assert QueueCheckpoint.load(RealDisk(), tmp_path, "beef") is None
    assert QueueCheckpoint.load(RealDisk(), tmp_path / "nowhere", "cafe") is None


def test_the_next_marks_take_the_place_of_longer_ones(tmp_path: Path) -> None:
    long = QueueCheckpoint("cafe")
    long.save(RealDisk(), tmp_path, [ConsumeQueue("T", number) for number in range(100)])
    QueueCheckpoint("cafe").save(RealDisk(), tmp_path, [])
    assert QueueCheckpoint.load(RealDisk(), tmp_path, "cafe") == QueueCheckpoint("cafe")


@pytest.mark.parametrize(
    "queues", ["5", "[]", '{"T": 5}', '{"T": {"0": 5}}', '{"T": {"0": [1]}}', '{"T": {"x": [1, 2]}}']
)
def test_a_damaged_file_is_none(tmp_path: Path, queues: str) -> None:
    (tmp_path / FILE_NAME).write_text(f'{{"checkpoint": "cafe", "known": {{"4": 8}}, "queues": {queues}}}')
    assert QueueCheckpoint.load(RealDisk(), tmp_path, "cafe") is None
