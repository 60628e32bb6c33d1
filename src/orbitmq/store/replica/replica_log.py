"""Following a master: bytes of its log are appended, and queues follow from the records in them."""

from __future__ import annotations

from orbitmq import failpoints
from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import StoreUnavailable
from orbitmq.store.log.log_writer import RECORD_OVERHEAD_BYTES
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.writer import TRIMMED_PER_CALL
from orbitmq.store.replica.raw_append import QueueFollower, RawAppend
from orbitmq.store.structures import Structures


class ReplicaLog:
    """The log of a slave, which its master writes. Belongs to the owner of the store."""

    def __init__(self, options: StoreOptions, structures: Structures, acceptance: Acceptance) -> None:
        self._structures = structures
        self._acceptance = acceptance
        self.raw = RawAppend(structures.log, options.max_message_size + RECORD_OVERHEAD_BYTES)
        self._queues = QueueFollower(
            structures.queues,
            structures.extension,
            delays_ms(options.message_delay_level),
            structures.delete,
        )

    @property
    def end(self) -> int:
        """The physical offset behind everything received of a master's log, even of a partial record."""
        return self.raw.end

    def drop_partial(self) -> None:
        """Forgets the beginning of a record whose rest has not come from the master."""
        self.raw.drop_partial()

    def append(self, physical_offset: int, data: bytes | memoryview) -> None:
        """Appends bytes of a master's log, cut anywhere; queues follow from whole records at once.

        Raises NotTheMasters for bytes that do not continue this log, StoreUnavailable where nothing is
        taken now, OSError where the disk has no room. Records that are whole by then are stored.
        """
        refused = self._acceptance.refusal()
        if refused:
            raise StoreUnavailable(refused)
        structures = self._structures
        if structures.queue_writer.written:
            structures.queue_writer.trim_tails(TRIMMED_PER_CALL)
        queues, newest = self._queues, structures.newest
        queues.begin(structures.arrivals.dirty)
        try:
            self.raw.append(physical_offset, data, queues.follow)
        finally:
            newest.advance(queues.latest_ms)
            newest.physical_offset = max(newest.physical_offset, queues.last_record)
        if failpoints.armed:
            failpoints.hit("commitlog.after_append")
