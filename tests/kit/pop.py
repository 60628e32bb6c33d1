"""A broker that pops, on a clock that the test moves, with timers that come when they are due."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.handling.call import Durable, Outcome, Peer, Signal, Wait, Warm
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.handles.pop import PopHandle, real_topic, topic_type
from orbitmq.protocol.names import POP_CK
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, decode_records
from orbitmq.protocol.requests.pop import AckMessage, ChangeMessageInvisibletime, PopMessage, PopReply
from tests.kit.real_broker import NOW, PEER, RealBroker, message

TOPIC, GROUP = "TopicTest", "G"


@dataclass
class Got:
    """A message that was popped, as a client knows it."""

    record: StoredMessage
    handle: PopHandle
    topic: str
    """The topic it is stored in, which acknowledging names."""

    @property
    def body(self) -> bytes:
        return self.record.body


@dataclass
class Call:
    """A pop or notification that was asked, and what became of it."""

    result: Any
    reply: Any = None
    refused: Exception | None = None


@dataclass
class PopWorld:
    """`now` moves by `wait`; timer messages and held calls come as the server would bring them."""

    root: Path
    properties: dict[str, object] = field(default_factory=dict)
    queues: int = 4
    now: int = NOW

    def __post_init__(self) -> None:
        self.calls: list[Call] = []
        self.sent = 0
        self._files: dict[str, str] = {}
        self._open()
        self.broker.topics.put(TopicConfig(TOPIC, self.queues, self.queues, 6), self.now)
        self.broker.topics.note_saved()

    def _open(self) -> None:
        self.real = RealBroker(self.root, now=self.now, files=self._files, **self.properties)
        self.broker = self.real.broker
        self.store = self.real.store

    def close(self) -> None:
        self.real.close()

    def restart(self, *, kill: bool = False) -> None:
        """Ends the broker and opens its folder again. After a kill the tables are those last saved."""
        if not kill:
            self.broker.stop(self.now)
            self.save()
            self.store.close()
        else:
            self.store.abandon()
        self.calls = []
        self._open()

    def save(self) -> None:
        """Writes the tables, as the server does every few seconds."""
        self._files = {name: snapshot()() for name, (_, snapshot, _) in self.broker.files.items()}

    # Time.

    def wait(self, ms: int) -> None:
        """Lets time pass, in steps of a tenth of a second; in a long time of half a second."""
        end = self.now + ms
        step_ms = 100 if ms <= 12_000 else 500
        while self.now < end:
            self.now = min(end, self.now + step_ms)
            self.step()

    def step(self) -> None:
        """The server's work at a moment: timers, revival, wake-ups."""
        self._deliver_timers()
        self.broker.run_pop_timers(self.now)
        while self.broker.revive(self.now):
            pass
        if self.broker.topics.dirty_names:
            self.save()
            self.broker.topics.note_saved()
        self.turn()
        self._time_out()

    def turn(self) -> None:
        """The end of a turn."""
        if self.store.flushing.is_wanted:
            self.store.flushing.flush_now()
        arrivals = self.store.arrivals.drain()
        self.broker.held_pops.arrived(arrivals)
        self.broker.held_notices.arrived(arrivals)
        self.broker.lite_events.arrived(arrivals, self.now)
        while woken := self.broker.drain_woken():
            for signal in woken:
                for call in self.calls:
                    if call.result is not None and signal in call.result.on:
                        self._end(call, call.result, timed_out=False)

    def _time_out(self) -> None:
        for call in self.calls:
            if call.result is not None and call.result.deadline <= self.now:
                self._end(call, call.result, timed_out=True)

    def _end(self, call: Call, wait: Wait, *, timed_out: bool) -> None:
        self.took(call, wait.then(Outcome(timed_out), self.now))

    def took(self, call: Call, result: Any) -> None:
        while isinstance(result, Wait) and not isinstance(result.on[0], Signal):
            condition = result.on[0]
            if isinstance(condition, Warm):
                self.store.reader.read_cold(condition.offset, condition.size_bytes, condition.queue)
            else:
                assert isinstance(condition, Durable)
                self.store.flushing.flush_now()
            result = result.then(Outcome(False), self.now)
        if isinstance(result, Wait):
            call.result = result
        else:
            call.result, call.reply = None, result

    def _deliver_timers(self) -> None:
        while True:
            step = self.broker.timer.step(self.now)
            if step.fetch is not None:
                step.fetch()
                self.broker.timer.fetched()
            elif not step.again:
                return
            if self.store.durable_offset < self.store.max_physical:
                self.store.flushing.flush_now()

    # Actions of clients.

    def send(self, count: int = 1, queue_id: int = 0, tag: str = "TagA", topic: str = TOPIC) -> list[bytes]:
        """Sends messages with numbered bodies."""
        bodies = []
        for _ in range(count):
            body = b"m%d" % self.sent
            self.sent += 1
            properties = f"UNIQ_KEY\x01{body.decode()}\x02TAGS\x01{tag}\x02"
            (sent,) = self.real.send_together(
                [message(topic=topic, queue_id=queue_id, body=body, properties=properties)], self.now
            )
            assert not isinstance(sent, Exception), sent
            bodies.append(body)
        self.store.flushing.flush_now()
        self.turn()
        return bodies

    def ask_pop(self, peer: Peer = PEER, **fields: Any) -> Call:
        """Sends a pop and does not wait for its reply."""
        values: dict[str, Any] = {
            "consumer_group": GROUP,
            "topic": TOPIC,
            "queue_id": -1,
            "max_msg_nums": 32,
            "invisible_time": 10_000,
            "poll_time": 0,
            "born_time": self.now,
            "init_mode": 0,
            **fields,
        }
        call = Call(None)
        self.took(call, self.real.handle(PopMessage(**values), self.now, peer))
        if call.result is not None:
            self.calls.append(call)
        self.turn()
        return call

    def pop(self, **fields: Any) -> list[Got]:
        """The messages of a pop that does not wait."""
        return self.got(self.ask_pop(**fields), **fields)

    def got(self, call: Call, **fields: Any) -> list[Got]:
        """Messages of a pop."""
        assert isinstance(call.reply, PopReply)
        return got_of(call.reply, fields.get("topic", TOPIC), fields.get("consumer_group", GROUP))

    def ack(self, got: Got, group: str = GROUP) -> None:
        """Acknowledges a message."""
        call = Call(None)
        request = AckMessage(
            group, got.topic, got.handle.queue_id, got.handle.to_text(), got.record.queue_offset
        )
        self.took(call, self.real.handle(request, self.now))
        self.turn()

    def hide(self, got: Got, ms: int, group: str = GROUP) -> Got:
        """Changes the invisible time of a message; gives it with its new handle."""
        call = Call(None)
        request = ChangeMessageInvisibletime(
            group, got.topic, got.handle.queue_id, got.handle.to_text(), got.record.queue_offset, ms
        )
        self.took(call, self.real.handle(request, self.now))
        self.turn()
        reply, old = call.reply, got.handle
        handle = PopHandle(
            got.record.queue_offset, reply.pop_time, reply.invisible_time, reply.revive_qid, old.topic_type,
            old.broker_name, old.queue_id, got.record.queue_offset,
        )  # fmt: skip
        return Got(got.record, handle, got.topic)


def got_of(reply: PopReply, topic: str, group: str) -> list[Got]:
    """The messages of a reply, with the handles a client makes of its fields."""
    if not reply.body:
        return []
    starts = {}
    for entry in (reply.start_offset_info or "").split(";"):
        kind, queue_id, start = entry.split(" ")
        starts[kind, queue_id] = int(start)
    listed = {
        (kind, queue_id): [int(offset) for offset in offsets.split(",")]
        for kind, queue_id, offsets in (
            entry.split(" ") for entry in (reply.msg_offset_info or "").split(";")
        )
    }
    records, bad = decode_records(memoryview(bytes(reply.body)))
    assert not bad
    found = []
    for record in records:
        own = record.property_map().get(POP_CK)
        if own is not None:
            handle = PopHandle.from_text(own)
        else:
            key = (str(topic_type(record.topic)), str(record.queue_id))
            assert record.queue_offset in listed[key]
            handle = PopHandle(
                starts[key], reply.pop_time, reply.invisible_time, reply.revive_qid,
                topic_type(record.topic), "broker-a", record.queue_id, record.queue_offset,
            )  # fmt: skip
        stored = record.topic if own is None else real_topic(topic, group, handle.topic_type)
        found.append(Got(record, handle, stored))
    return found


def bodies(got: list[Got]) -> list[bytes]:
    """The bodies of messages, in order."""
    return [one.body for one in got]


__all__ = ["GROUP", "NOW", "TOPIC", "Call", "Got", "PopWorld", "bodies", "decode_record", "got_of"]
