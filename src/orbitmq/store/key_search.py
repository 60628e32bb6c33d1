"""Messages by key: the index finds where they are, and the log has them."""

from __future__ import annotations

from collections.abc import Generator

from orbitmq.store.log.messages import QueryResult
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.structures import Structures

INDEX_SLICES_AT_QUERY = 8


class KeySearch:
    """The owner of the store begins a search; its steps are for a thread."""

    def __init__(self, options: StoreOptions, structures: Structures) -> None:
        self._options = options
        self._structures = structures
        self._index = structures.index

    def begin(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str
    ) -> Generator[None, None, QueryResult]:
        """Messages of a topic by key (K), unique id (U) or tag (T), stored within a range of times, oldest
        first. It is work for a thread, in steps: chains of the index may be long, and on the disk.

        The index finds hashes: whoever needs certainty compares the key of each message.
        """
        structures = self._structures
        text = f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}"
        most = max(1, min(max_count, self._options.max_msgs_num_batch))
        end, timestamp = structures.arrivals.end_of_log, structures.newest.timestamp_ms
        search = structures.lookup.frozen(structures.queues, ())
        return self._steps(text, most, (begin_ms, end_ms), end, timestamp, search)

    def _steps(
        self, text: str, most: int, times: tuple[int, int], end: int, timestamp: int, search: Lookup
    ) -> Generator[None, None, QueryResult]:
        if not self._options.index_file_read_enable:
            return QueryResult([], 0, 0)
        # Records stored a moment ago are found too, as long as they are few.
        self._index.build(end, timestamp, INDEX_SLICES_AT_QUERY)
        records: list[memoryview] = []
        found = yield from self._index.find(text, *times, most)
        for physical_offset in found:
            yield
            record = search.record_at(physical_offset)
            if record is not None:
                records.append(record)
        return QueryResult(records, *self._index.last)
