from pathlib import Path

from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.files import RealDisk
from orbitmq.store.marks import FILE_NAME, Marks


def test_marks_come_back_as_they_were(tmp_path: Path) -> None:
    marks = Marks("cafe", 1, 2, 3, 4, 5, "20240101", 6, 7, {4: 8})
    queue = ConsumeQueue("%RETRY%G", 3, 7)
    queue.swept_to = 9
    marks.take_queues([queue, ConsumeQueue("T", 0)])
    marks.save(RealDisk(), tmp_path)
    assert Marks.load(RealDisk(), tmp_path, "cafe") == marks
    assert marks.queues == {"%RETRY%G": {3: (7, 9)}, "T": {0: (0, 0)}}
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_marks_of_another_checkpoint_are_none(tmp_path: Path) -> None:
    Marks("cafe").save(RealDisk(), tmp_path)
    assert Marks.load(RealDisk(), tmp_path, "beef") is None
    assert Marks.load(RealDisk(), tmp_path / "nowhere", "cafe") is None


def test_the_next_marks_take_the_place_of_longer_ones(tmp_path: Path) -> None:
    long = Marks("cafe")
    long.take_queues([ConsumeQueue("T", number) for number in range(100)])
    long.save(RealDisk(), tmp_path)
    Marks("cafe").save(RealDisk(), tmp_path)
    assert Marks.load(RealDisk(), tmp_path, "cafe") == Marks("cafe")
