"""The store against a model of lists: whatever is done, in whatever order, both say the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.store import GetStatus, MessageStore, PendingMessage, PutStatus
from orbitmq.store.config_files import write_text
from tests.kit.store import NOW, crash, message, opened, query

TOPICS = ("T", "%RETRY%G")
QUEUES = [(topic, queue_id) for topic in TOPICS for queue_id in (0, 1)]


class StoreAndModel(RuleBasedStateMachine):
    """Appends, reads, writes queues, restarts, kills."""

    @initialize(sync=st.booleans())
    def start(self, sync: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-model-"))
        self.values = {"flush_disk_type": "SYNC_FLUSH" if sync else "ASYNC_FLUSH", "max_index_num": 60}
        self.sync = sync
        self.now = NOW
        self.number = 0
        self.deletions = Deletions(DirtyTables())
        self.gone: set[int] = set()
        """Messages of deleted topics: the index may still find them."""
        self.model: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        self.shown: dict[tuple[str, int], int] = {}
        self.told: dict[tuple[str, int], int] = {}
        self.store: MessageStore = opened(self.root, self.now, **self.values)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            crash(self.store)
            shutil.rmtree(self.root)

    def all_shown(self) -> None:
        self.shown = {queue: len(messages) for queue, messages in self.model.items()}

    @rule(
        sent=st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(0, 9000)), min_size=1, max_size=12),
        later=st.integers(-20, 5000),
        as_batch=st.booleans(),
    )
    def append(self, sent: list[tuple[tuple[str, int], int]], later: int, as_batch: bool) -> None:
        self.now += later
        messages = []
        for (topic, queue_id), size in sent:
            body = b"%d " % self.number + bytes(size)
            messages.append(message(self.number, topic, queue_id, body=body, keys=f"k{self.number % 7}"))
            self.number += 1
        if as_batch:
            self.append_batch(messages)
        else:
            for one, appended in zip(messages, self.store.append_many(messages, self.now), strict=True):
                assert appended.status is PutStatus.PUT_OK
                self.note(one, one, appended.queue_offset)
        if not self.sync:
            self.all_shown()

    def append_batch(self, messages: list[PendingMessage]) -> None:
        batch = messages[0]
        batch.batch = encode_batch([(one.flag, bytes(one.body), one.properties) for one in messages])
        appended = self.store.append(batch, self.now)
        if appended.status is not PutStatus.PUT_OK:
            assert sum(len(one.body) for one in messages) > 16 << 10  # more than one segment could take
            return
        assert len(appended.parts) == len(messages)
        for n, one in enumerate(messages):
            self.note(batch, one, appended.queue_offset + n)

    def note(self, place: PendingMessage, one: PendingMessage, queue_offset: int) -> None:
        queue = self.model.setdefault((place.topic, place.queue_id), [])
        assert queue_offset == len(queue)
        queue.append((one.flag, bytes(one.body)))

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        """As the broker does: the log is on the disk as far as the file says."""
        self.deletions.note(topic, self.store.log_end(), self.now)
        self.store.structures.delete_queues(topic)
        self.store.flushing.flush_now()
        self.all_shown()
        write_text(self.root / "config" / Deletions.FILE, self.deletions.snapshot()())
        for queue in [queue for queue in self.model if queue[0] == topic]:
            self.gone |= {flag for flag, _ in self.model.pop(queue)}
            self.told.pop(queue, None)
        self.all_shown()

    @rule()
    def flush(self) -> None:
        self.store.flushing.flush_now()
        self.all_shown()

    @rule(later=st.sampled_from([0, 1000, 70_000]))
    def periodic_tasks(self, later: int) -> None:
        self.now += later
        for task in self.store.periodic_tasks():
            if task.name != "retention":
                task.run(self.now)
        if self.store.durable_offset == self.store.max_physical:
            self.all_shown()

    @rule()
    def arrivals(self) -> None:
        for topic, queue_id, offset, _ in self.store.arrivals.drain():
            before = self.told.get((topic, queue_id), 0)
            assert offset == before + 1
            self.told[topic, queue_id] = offset
        assert {queue: end for queue, end in self.shown.items() if end} == self.told

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.reopen()

    @rule()
    def kill_and_open(self) -> None:
        crash(self.store)
        self.reopen()

    def reopen(self) -> None:
        self.store = opened(self.root, self.now, **self.values)
        self.all_shown()
        self.told = dict(self.shown)

    @rule(number=st.integers(0, 200))
    def query(self, number: int) -> None:
        shown = {flag for queue, end in self.shown.items() for flag, _ in self.model[queue][:end]}
        found: list[bytes | memoryview] = []
        for topic in TOPICS:
            found += query(self.store, topic, f"ID{number:08d}", 9, 0, 1 << 60, "U").records
        assert number in self.gone or len(found) == (number in shown)

    @rule(queue=st.sampled_from(QUEUES), start=st.integers(0, 60), count=st.integers(1, 40))
    def read(self, queue: tuple[str, int], start: int, count: int) -> None:
        result = self.store.get(*queue, start, count)
        if result.cold is not None:
            self.store.reader.read_cold(*result.cold)
            result = self.store.get(*queue, start, count)
        expected = self.model.get(queue, [])[: self.shown.get(queue, 0)]
        if start >= len(expected):
            assert result.status is not GetStatus.FOUND
            return
        records, bad = decode_records(b"".join(result.records))
        assert not bad
        got = [(record.flag, record.body) for record in records]
        assert got == expected[start : result.next_offset]
        assert 1 <= len(got) <= count

    @invariant()
    def offsets_agree(self) -> None:
        for queue in QUEUES:
            assert self.store.max_offset(*queue) == self.shown.get(queue, 0)


TestStoreAndModel = StoreAndModel.TestCase
TestStoreAndModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
