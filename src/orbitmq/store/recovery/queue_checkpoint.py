"""The file `queuemarks.json`: offsets of every queue when the store last wrote its checkpoint.

Apache has no such file and ignores it. With it a start notices consume-queue files that were deleted or cut
off, and rebuilds just those queues from the log; after a clean stop it spares the scan of the log. It counts
only together with the checkpoint it was written beside: whoever worked in the folder since then has changed
that. And it counts only for the log that it describes, known by checksums of some of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from orbitmq.store.files import Disk, replace_file
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.sound_records import record_checksum
from orbitmq.store.queue.consume_queue import ConsumeQueue

FILE_NAME = "queuemarks.json"


@dataclass(slots=True)
class QueueCheckpoint:
    """Content of the file. Offsets in `queues` are (first, next) by topic and queue id."""

    checkpoint: str = ""
    """The checkpoint's bytes, as hex."""
    durable: int = 0
    """The log was on the disk up to this physical offset."""
    end: int = 0
    """The end of the log."""
    last_record: int = -1
    """Physical offset of its last record; -1 for none."""
    replay_from: int = -1
    """Physical offset of a record; the units of all records before it were on the disk."""
    last_timestamp_ms: int = 0
    index_file: str = ""
    """The newest index file, its entries then, and the physical offset up to which messages were indexed."""
    index_count: int = 0
    index_position: int = 0
    known: dict[int, int] = field(default_factory=dict)
    """Checksums of whole records that were on the disk, by where they begin: the one to replay from, and the
    first of its segment."""
    queues: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def note_records(self, commit_log: CommitLog) -> None:
        """Notes checksums of records that identify the log."""
        segment = commit_log.find(self.replay_from)
        if segment is not None:
            for start in (segment.start, self.replay_from):
                checksum = record_checksum(commit_log, start)
                if checksum is not None:
                    self.known[start] = checksum

    def are_of(self, commit_log: CommitLog) -> bool:
        """True unless this is another log, as far as it can be known: records that are damaged or gone may be
        those that were noted. Sound ones may be others only where one is as it was.
        """
        found = {start: record_checksum(commit_log, start) for start in self.known}
        others = any(checksum not in (None, self.known[start]) for start, checksum in found.items())
        return not others or any(found[start] == checksum for start, checksum in self.known.items())

    def save(self, disk: Disk, root: Path, queues: Iterable[ConsumeQueue]) -> None:
        """Writes the file as a whole, with the offsets of queues, a topic's together. Raises OSError."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "queues"}
        # A topic at a time: with many queues the encoder would keep the interpreter to itself, and a table of
        # all of them would be larger than the queues are.
        lines = []
        for topic, of_topic in groupby(queues, key=attrgetter("topic")):
            offsets = {queue.queue_id: (queue.min_offset, queue.written_to) for queue in of_topic}
            lines.append(f"{json.dumps(topic)}: {json.dumps(offsets)}")
        text = ",\n".join(lines)
        replace_file(disk, root / FILE_NAME, f'{json.dumps(values)[:-1]}, "queues": {{{text}}}}}\n'.encode())

    @classmethod
    def load(cls, disk: Disk, root: Path, checkpoint: str) -> QueueCheckpoint | None:
        """The file's content, None if there is none that can be read, or not beside this checkpoint."""
        if FILE_NAME not in disk.names(root):
            return None
        file = disk.open(root / FILE_NAME)
        data = file.read(0, file.size)
        file.close()
        try:
            values = json.loads(data, object_pairs_hook=_offsets)
            queues = values.pop("queues")
            if not all(isinstance(one, int) for table in queues.values() for one in dict(table)):
                return None
            known = {int(start): int(checksum) for start, checksum in values.pop("known", {}).items()}
            queue_checkpoint = cls(**values, known=known, queues=queues)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return queue_checkpoint if queue_checkpoint.checkpoint == checkpoint else None


def _offsets(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """An object of the file; the offsets of a topic's queues as they are kept, for there may be very many."""
    if pairs and isinstance(pairs[0][1], list):
        return {int(queue_id): (int(first), int(after)) for queue_id, (first, after) in pairs}
    return dict(pairs)
