"""Following a master: bytes of its log are appended, and queues follow from the records in them."""

from __future__ import annotations

from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.store import failpoints
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import StoreUnavailable
from orbitmq.store.log.log_writer import RECORD_OVERHEAD_BYTES
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.writer import TRIMMED_PER_CALL
from orbitmq.store.replica.raw_append import QueueFollower, RawAppend
from orbitmq.store.structures import Structures


class Following:
    """Belongs to the owner of the store."""

    def __init__(self, options: StoreOptions, structures: Structures, acceptance: Acceptance) -> None:
        self._structures = structures
        self._acceptance = acceptance
        self.raw = RawAppend(structures.log, options.max_message_size + RECORD_OVERHEAD_BYTES)
        self._queues = QueueFollower(
            structures.queues,
            structures.extension,
            delays_ms(options.message_delay_level),
            structures.delete_queues,
        )

    def append(self, physical_offset: int, data: bytes | memoryview) -> None:
        """See `MessageStore.append_raw`."""
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
