"""The structures of one store: the log, and everything that is derived from it."""

from __future__ import annotations

from orbitmq.store.checkpointing import Checkpointing
from orbitmq.store.files import Disk
from orbitmq.store.index.index_table import Index
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.confirm import Confirm
from orbitmq.store.log.newest import NewestRecord
from orbitmq.store.log.retention import Retention
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.arrivals import Arrivals
from orbitmq.store.queue.consume_queue import ConsumeQueue, QueueTable
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.queue.reader import QueueReader
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.recovery.checkpoint import Checkpoint


class Structures:
    """The files of a data folder, and what reads and writes them, put together but not yet recovered."""

    def __init__(self, options: StoreOptions, disk: Disk, cut: int | None) -> None:
        """`cut` is the physical offset of a truncation that the last process did not complete, if any."""
        root = options.root
        self.disk = disk
        self.checkpoint = Checkpoint.load(disk, root / "checkpoint")
        self.log = CommitLog.load(disk, root / "commitlog", options.mapped_file_size_commit_log, cut)
        self.newest = NewestRecord()
        self._make_queues(options)
        self.index = Index(
            disk,
            root / "index",
            self.log,
            self.checkpoint,
            options.max_hash_slot_num,
            options.max_index_num,
            options.message_index_enable and options.index_file_write_enable,
        )
        self._make_readers(options)
        self.checkpointing = Checkpointing(
            options,
            disk,
            self.log,
            self.queues,
            self.queue_writer,
            self.index,
            self.arrivals,
            self.checkpoint,
            self.newest,
        )
        self.retention = Retention(options, disk, self.log, self.follow_log)

    def _make_queues(self, options: StoreOptions) -> None:
        disk, root = self.disk, options.root
        self.queues = QueueTable(
            disk, root / "consumequeue", options.mapped_file_size_consume_queue, options.sync_flush
        )
        self.queues.extended = options.enable_consume_queue_ext
        self.extension = ExtensionFiles(
            disk, root / "consumequeue_ext", options.mapped_file_size_consume_queue_ext, self.queues
        )
        self.queue_writer = QueueWriter(
            disk, self.queues, self.extension, options.flush_consume_queue_least_pages
        )

    def _make_readers(self, options: StoreOptions) -> None:
        self.confirm = Confirm(self.log, options.sync_flush)
        self.arrivals = Arrivals(self.log, self.queues, self.extension, self.confirm)
        self.lookup = Lookup(
            self.log, self.queues, self.arrivals, self.extension, options.enabled_append_prop_crc
        )
        self.reader = QueueReader(options, self.log, self.queues, self.arrivals, self.extension)

    def follow_log(self, min_physical: int) -> None:
        """Queues and index let go of what is not in the log any more. Any thread may call it."""
        self.queue_writer.raise_min_offsets(min_physical)
        self.index.remove_before(min_physical)
        # A queue checkpoint that names what is gone would have the next start after a crash look for it in
        # all of the log.
        self.checkpointing.run_soon()

    def delete_queues(self, topic: str, before: int | None = None) -> int:
        """Deletes the queues of a topic, their files with the next write of queues; returns their number.

        With `before`, those that have begun at that physical offset or behind it stay: the topic was made
        anew meanwhile, and each of its queues has begun anew with its first message.
        """
        table = self.queues
        queues = table.remove_topic(topic) if before is None else table.remove_older(topic, before)
        self.delete(queues)
        return len(queues)

    def delete(self, queues: list[ConsumeQueue]) -> None:
        """Deletes what else there is of queues that were taken out of the table."""
        self.queue_writer.mark_deleted(queues)
        for queue in queues:
            self.extension.forget(queue)
        self.checkpointing.run_soon()

    def close(self) -> None:
        """Lets go of the files, but for the log's."""
        self.queue_writer.close()
        self.queues.close()
        self.extension.close()
        self.index.close()
