"""Consume queues without a store, and their writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.files import RealDisk
from orbitmq.store.queue.consume_queue import QueueTable
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.queue.writer import QueueWriter
from tests.kit.store import QUEUE_FILE_BYTES


@pytest.fixture
def table(tmp_path: Path) -> QueueTable:
    folder = tmp_path / "consumequeue"
    folder.mkdir()
    return QueueTable(RealDisk(), folder, QUEUE_FILE_BYTES)


@pytest.fixture
def writer(table: QueueTable) -> QueueWriter:
    extension = ExtensionFiles(table.disk, table.folder.parent / "extension", 4096, table)
    return QueueWriter(table.disk, table, extension, 2)
