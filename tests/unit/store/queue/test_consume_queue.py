"""Consume queues: many of them, few open files, one writer."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from orbitmq.store.files import RealDisk
from orbitmq.store.queue.consume_queue import OpenFiles, QueueTable
from orbitmq.store.queue.writer import QueueWriter
from tests.kit.store import QUEUE_FILE_BYTES, add_units


def test_few_files_stay_open(table: QueueTable, tmp_path: Path) -> None:
    files = OpenFiles(table.disk, tmp_path, QUEUE_FILE_BYTES, most=10)
    queues = [table.make("T", n) for n in range(50)]
    for queue in queues:
        assert files.get(queue, 0, create=True) is not None
    assert len(files) == 10
    kept = files.get(queues[0], 0)
    assert kept is not None
    for queue in queues:
        files.get(queue, 0)
    assert kept.read(0, 5) == bytes(5)  # whoever still reads keeps it open
    assert files.get(table.make("other", 0), 0) is None
    files.forget(queues[-1])
    assert len(files) == 9


def test_a_hundred_thousand_queues_cost_little(tmp_path: Path) -> None:
    count = 20_000
    table = QueueTable(RealDisk(), tmp_path, QUEUE_FILE_BYTES)
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        queue = table.make(f"topic-{number // 8}", number % 8)
        queue.max_offset = queue.visible = queue.announced = queue.tail_start = queue.written_to = (
            1000 + number
        )
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 600


def test_the_first_message_from_a_physical_offset_on(table: QueueTable, writer: QueueWriter) -> None:
    queue = table.make("T", 0)
    add_units(queue, 120)
    writer.run()
    writer.trim_tails()
    add_units(queue, 5)
    for physical_offset, first in ((0, 0), (1, 1), (100, 1), (11_950, 120), (12_400, 124), (99_999, 125)):
        assert table.first_from(queue, physical_offset) == first
