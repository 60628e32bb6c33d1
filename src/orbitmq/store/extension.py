"""Extension files of consume queues (enableConsumeQueueExt), which Apache may have left: read, never written.

Where Apache kept more about a message than its tag's hash, the tags code of its unit is an address: the
position of an extension unit, counted from the smallest i64. Extension unit: size i16 | tags code i64 | store
time i64 | bit map.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from orbitmq.store.files import Disk, StoreFile, segment_name, segment_starts

LARGEST_ADDRESS = -2147483649
"""Tags codes up to this one are addresses, for no hash is as small."""

_CODE = Struct(">hq")
_MAX_OPEN = 64


class ExtensionFiles:
    """The folder `consumequeue_ext`."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self.topics = frozenset(disk.names(folder))
        self._starts: dict[tuple[str, int], list[int]] = {}
        self._files: dict[tuple[str, int, int], StoreFile] = {}

    def tags_code(self, topic: str, queue_id: int, code: int) -> int:
        """The hash of the tag for what stands in a unit; 0 if its extension is gone."""
        if code > LARGEST_ADDRESS or topic not in self.topics:
            return code
        position = code + (1 << 63)
        file, start = self._file(topic, queue_id, position)
        data = file.read(position - start, _CODE.size) if file is not None else b""
        if len(data) < _CODE.size:
            return 0
        size, tags_code = _CODE.unpack(data)
        return int(tags_code) if size >= 20 else 0

    def _file(self, topic: str, queue_id: int, position: int) -> tuple[StoreFile | None, int]:
        folder = self._folder / topic / str(queue_id)
        if (topic, queue_id) not in self._starts:
            self._starts[topic, queue_id] = segment_starts(self._disk.names(folder))
        start = max((start for start in self._starts[topic, queue_id] if start <= position), default=-1)
        if start < 0:
            return None, 0
        file = self._files.get((topic, queue_id, start))
        if file is None:
            if len(self._files) >= _MAX_OPEN:
                self._files.clear()
            file = self._files[topic, queue_id, start] = self._disk.open(folder / segment_name(start))
        return file, start
