"""Timers over a real store, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.store import MessageStore, PendingMessage, PutStatus, StoreOptions
from orbitmq.store.files import Disk
from tests.kit.store import crash

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
NOW = 1_795_000_000_000
"""A full second."""


@dataclass
class Settings:
    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1000
    timer_max_delay_sec: int = 259_200
    timer_roll_window_slot: int = 172_800
    timer_congest_num_each_slot: int = 2_147_483_647
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    append_topic_for_timer_delete_key: bool = False
    file_reserved_time: int = 72


class TimerWorld:
    """A store and its timers; `send` at `now`, `run` as the server would."""

    def __init__(self, root: Path, now: int = NOW, *, disk: Disk | None = None, **values: Any) -> None:
        names = Settings.__dataclass_fields__
        self.settings = Settings(**{name: value for name, value in values.items() if name in names})
        self.root = root
        self.disk = disk
        self.now = now
        self.store_values = {
            "mapped_file_size_commit_log": 256 << 10,
            "mapped_file_size_consume_queue": 20 * 1000,
            "max_hash_slot_num": 100,
            "max_index_num": 400,
            "max_message_size": 64 << 10,
            "mapped_file_size_timer_log": 52 * 20 + 16,
            "timer_precision_ms": self.settings.timer_precision_ms,
            "timer_wheel_enable": self.settings.timer_wheel_enable,
            **{name: value for name, value in values.items() if name not in names},
        }
        self.sent = 0
        self.store: MessageStore
        self.timer: Timers
        self.start()

    # Life.

    def start(self) -> None:
        """Opens the store, as a broker's start does."""
        options = StoreOptions(root=self.root, **self.store_values)
        self.store = MessageStore.open(options, self.now, self.disk)
        dirty_tables = DirtyTables()
        self.timer = Timers(self.settings, self.store, dirty_tables, BrokerStats("C", self.now), self.now)
        path = self.root / "config" / "timermetrics"
        if path.exists():
            self.timer.metrics.load_text(path.read_text())
        self.timer.start(["T", "U"])

    def stop(self) -> None:
        """An orderly end."""
        self.store.timer_mark = self.timer.stop(self.now)
        (self.root / "config" / "timermetrics").write_text(self.timer.metrics.snapshot()())
        self.store.close()

    def kill(self) -> None:
        """The end of the process: what was written is there, nothing else happens."""
        timers = self.store.timers
        crash(self.store)
        if timers is not None:
            timers.log.close()
            timers.wheel.close()
            timers.check.close()

    # Work.

    def message(self, body: str, queue_id: int = 0, topic: str = "T", **properties: object) -> PendingMessage:
        self.sent += 1
        given = {"UNIQ_KEY": f"ID{self.sent:06d}", **{name: str(value) for name, value in properties.items()}}
        rerouted = self.timer.reroute(topic, queue_id, given, self.now)
        if rerouted is not None:
            topic, queue_id, given = rerouted.topic, rerouted.queue_id, rerouted.properties
        return PendingMessage(
            topic, queue_id, 0, 0, self.now, HOST, HOST, 0, 0, body.encode(), encode_properties(given)
        )

    def send(self, body: str, queue_id: int = 0, topic: str = "T", **properties: object) -> str:
        """Sends a message as a producer would; gives its unique id."""
        message = self.message(body, queue_id, topic, **properties)
        assert self.store.append(message, self.now).status is PutStatus.PUT_OK
        return f"ID{self.sent:06d}"

    def recall(self, unique_id: str, time_ms: int, topic: str = "T") -> None:
        """Takes a message back as the handler of recalls does."""
        self.send("0", 0, topic, UNIQ_KEY=unique_id, TIMER_DEL_UNIQKEY=unique_id, TIMER_DELIVER_MS=time_ms)

    def run(self, until: int | None = None, step_ms: int = 50) -> None:
        """Lets time pass and does what is to be done."""
        until = self.now if until is None else until
        while True:
            self.work()
            if self.now >= until:
                return
            self.now = min(until, self.now + step_ms)

    def work(self) -> None:
        """Everything that can be done now."""
        for _ in range(100_000):
            step = self.timer.step(self.now)
            if step.fetch is not None:
                step.fetch()
                self.timer.fetched()
            elif not step.again:
                return
        raise AssertionError("there is always more to do")

    def flush(self) -> None:
        """Brings everything to the disk that would be after a second or two."""
        self.store.flushing.flush_now()
        self.work()
        assert self.store.timers is not None
        self.store.timers.flush()
        self.work()
        self.store.timers.check.sync()

    # Messages that came.

    def records(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        found = []
        for queue_offset in range(self.store.max_offset(topic, queue_id)):
            unit = self.store.physical_offset_of(topic, queue_id, queue_offset)
            if unit is not None:
                record = self.store.record_at(unit[0])
                assert record is not None
                found.append(decode_record(record))
        return found

    def bodies(self, topic: str = "T", queue_id: int = 0) -> list[str]:
        return [record.body.decode() for record in self.records(topic, queue_id)]


Open = Callable[..., TimerWorld]
"""Opens a broker with timers on the folder of a test; takes the options of its store."""
