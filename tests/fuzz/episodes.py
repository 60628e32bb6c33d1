"""Hostile input for the compiled modules, an episode at a time: everything in it follows from its chance.

Sends, batches, acknowledgements and pulls go to two brokers that are alike: one takes frames, the other goes
the general path with just as much. Records that are taken have to come to the same.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from orbitmq.broker.delay.delay_cy import copy_due
from orbitmq.broker.delay.timer_intake_cy import plain_units
from orbitmq.broker.metadata.names import HALF_TOPICS
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.protocol.records.batch_cy import encode_batch, measure_batch, split_batch
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.encoding_cy import encode_batch_records
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord, RecordTooLarge
from orbitmq.protocol.records.message_cy import decode_record, decode_records, joined_record, split_records
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.remoting.signing import is_signed_with
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.spark.read.column_types import COLUMN_TYPES, MAX_QUEUE_OFFSET
from orbitmq.spark.read.scanner import RecordScanner
from orbitmq.store import PendingMessage
from orbitmq.store.index import index_cy
from orbitmq.store.queue.records_cy import record_offsets
from orbitmq.store.queue.scan_cy import Picked
from orbitmq.store.queue.units_cy import count_confirmed, count_valid
from orbitmq.store.replica.follow_cy import end_of_plain, put_plain_units
from tests.fuzz import shapes
from tests.fuzz.targets import TARGETS
from tests.kit import access
from tests.kit.real_broker import HOST, NOW, PEER, RealBroker, message

Episode = Callable[[Random], None]
EPISODES: dict[str, Episode] = {}
TOPIC = "TopicTest"
ID = "UNIQ_KEY\x017F000001ABCD"
HALF = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02{ID}"
BASES = ("", ID, ID, ID, HALF, HALF, f"DELAY\x013\x02{ID}", f"{ID}\x02TAGS\x01TagA")
LENGTHS = (0, 4, 8, 12, 20, 28, 36, 84, 88, 96, 100, 108, 112)
"""Places of the numbers in records, whatever their hosts."""


def episode(run: Episode) -> Episode:
    """Adds a target under the name of its function."""
    EPISODES[run.__name__] = run
    return run


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    fast = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        yield Path(folder)


def _broker(folder: Path, **options: object) -> RealBroker:
    """Has what messages of every kind wait in."""
    broker = RealBroker(folder, osPageCacheBusyTimeOutMills=600_000, **options)
    for queue_id in range(4):
        broker.send(queue_id=queue_id)
    broker.send(properties=f"DELAY\x013\x02{ID}\x02")
    broker.send(properties=f"{HALF}\x02", sys_flag=4)
    broker.broker.topics.note_saved()
    return broker


# ---- frames ----


SENDS = (SendMessageV2.CODE, SendBatchMessage.CODE, EndTransaction.CODE)


class Pair:
    """Two brokers that are alike; what one takes as frames the other is given one by one."""

    def __init__(self, first: RealBroker, second: RealBroker, code: int) -> None:
        self.first = first
        self.second = second
        self._code = code
        self._take = {
            SendMessageV2.CODE: first.handle_sends,
            SendBatchMessage.CODE: first.handle_sends,
            AckMessage.CODE: first.handle_acks,
            PullMessage.CODE: first.handle_pulls,
        }[code]

    def read(self, data: bytes) -> None:
        """One read of a connection."""
        if self._code in SENDS and _repeats_a_property(data):
            return
        taken = self._take(data, PEER, NOW + 1)
        end = 0 if taken is None else taken.end
        whole, taken_bytes = decode_frames(data[:end], MAX_FRAME_BYTES)
        assert taken_bytes == end
        assert {command.code for command in whole} <= {self._code, *(SENDS if self._code in SENDS else ())}
        if self._code == PullMessage.CODE:
            self._compare_pulls(data[:end], taken)
            return
        if taken is not None:
            ours = {
                one.opaque: (one.code, dict(one.ext or {}), one.remark)
                for one in FrameSplitter().feed(taken.answers)
            }
            theirs = self.second.read(data[:end], NOW + 1, at_once=False)
            assert ours == theirs, f"{ours} as frames, {theirs} one by one"
        self._take_rest(data[end:])

    def _compare_pulls(self, data: bytes, taken: Any) -> None:
        if taken is None:
            return
        theirs, held = self.second.read_pulls(data, NOW + 1, at_once=False)
        ours = {one.opaque: one for one in FrameSplitter().feed(taken.answers)}
        assert ours == theirs
        assert {command.opaque for command, _ in taken.results} == held.keys()

    def _take_rest(self, data: bytes) -> None:
        """The general path for both, as far as these are the requests that it is asked for here."""
        try:
            commands, _ = decode_frames(data, MAX_FRAME_BYTES)
        except MalformedFrame:
            return
        if not {command.code for command in commands} <= {self._code} or any(
            one.flag & 1 for one in commands
        ):
            return
        ours, theirs = (broker.read(data, NOW + 1, at_once=False) for broker in (self.first, self.second))
        assert ours == theirs
        for broker in (self.first, self.second):
            broker.broker.topics.note_saved()

    def cut(self, data: bytes, chance: Random) -> None:
        """Nothing of a frame that is cut off is taken, wherever that is."""
        for end in {*range(min(len(data), 400)), *(chance.randrange(len(data)) for _ in range(60))}:
            assert self._take(data[:end], PEER, NOW + 1) is None


def _repeats_a_property(data: bytes) -> bool:
    """True if one of the frames has a property twice: the one thing that the fast path stores as it came."""
    at = 0
    while len(data) - at >= 8:
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        try:
            commands, _ = decode_frames(data[at:end], MAX_FRAME_BYTES)
        except MalformedFrame:
            return False
        for command in commands:
            entries = (command.ext or {}).get("i", "").split("\x02")
            names = [entry.partition("\x01")[0] for entry in entries if entry]
            if len(set(names)) < len(names):
                return True
        at = end
    return False


@contextlib.contextmanager
def _pair(chance: Random, code: int) -> Iterator[Pair]:
    """The log of both ends anywhere."""
    options = {"mappedFileSizeCommitLog": chance.choice((1 << 17, 200_000, 1 << 20)) + chance.randrange(4096)}
    with _folder() as folder:
        pair = Pair(_broker(folder / "a", **options), _broker(folder / "b", **options), code)
        try:
            yield pair
        finally:
            pair.first.close()
            pair.second.close()


def _read(pair: Pair, chance: Random, make: Callable[[Random], Command]) -> None:
    """A few reads of some frames; then one frame is cut at every byte."""
    for _ in range(12):
        frames = []
        for opaque in range(chance.choice((1, 1, 2, 5))):
            command = make(chance)
            command.opaque = opaque
            command.flag |= FLAG_ONEWAY if chance.random() < 0.1 else 0
            frames.append(shapes.frame(command, chance, 0.25))
        pair.read(b"".join(frames))
    pair.cut(shapes.frame(make(chance), chance, 0), chance)


def _same_logs(pair: Pair) -> None:
    assert pair.first.log() == pair.second.log()


def _send(chance: Random) -> Command:
    base = chance.choice(BASES)
    fields: dict[str, Any] = {
        "properties": shapes.properties(chance, base),
        "sys_flag": 4 if base == HALF else chance.choice((0, 0, 0, 1, 8, 0x10, 0x30, 0xC0)),
        "queue_id": chance.choice((0, 1, 2, 3, 3, 4, -1)),
        "body": shapes.blob(chance),
    }
    if chance.random() < 0.15:
        name = chance.choice(("flag", "sys_flag", "born_timestamp", "queue_id", "reconsume_times"))
        fields[name] = shapes.number(chance)
    if chance.random() < 0.05:
        fields[chance.choice(("topic", "producer_group", "broker_name"))] = shapes.text(chance)
    return message(**fields).to_command()


@episode
def sends(chance: Random) -> None:
    """Sends of all kinds."""
    with _pair(chance, SendMessageV2.CODE) as pair:
        _read(pair, chance, _send)
        _same_logs(pair)


def _batch(chance: Random) -> Command:
    parts = [
        (shapes.number(chance) % (1 << 31), shapes.blob(chance), shapes.properties(chance).encode()[:32_700])
        for _ in range(chance.choice((1, 2, 5)))
    ]
    body = encode_batch(parts)
    plain = message(queue_id=chance.choice((0, 1, 3, 4, -1)), batch=True, flag=0)
    values = {row.name: getattr(plain, row.name) for row in type(plain).FIELDS if row.name != "body"}
    values["properties"] = chance.choice(("", "WAIT\x01true\x02", ID, shapes.properties(chance)))
    if chance.random() < 0.3:
        body = shapes.damaged(body, chance, (0, 4, 12, 16))
    return SendBatchMessage(**values, body=body).to_command()


@episode
def batches(chance: Random) -> None:
    """Batches, of which some have parts with other lengths."""
    with _pair(chance, SendBatchMessage.CODE) as pair:
        _read(pair, chance, _batch)
        _same_logs(pair)


def _ack(chance: Random) -> Command:
    offset = chance.choice((0, 0, 1, 2, 3, shapes.number(chance)))
    handle = PopHandle(0, NOW - 500, 60_000, chance.randrange(3), 0, "broker-a", chance.choice((0, 1, 9)))
    last = chance.choice(
        (f" {offset}", f" {offset}", "", " x", f" {shapes.number(chance)}", shapes.text(chance))
    )
    group = "G" if chance.random() < 0.8 else shapes.text(chance)
    return AckMessage(group, TOPIC, handle.queue_id, handle.to_text() + last, offset).to_command()


@episode
def acknowledgements(chance: Random) -> None:
    """Acknowledgements of what was never popped, as nobody knows."""
    with _pair(chance, AckMessage.CODE) as pair:
        for broker in (pair.first, pair.second):
            for _ in range(4):
                broker.send(queue_id=0)
            broker.broker.in_flight.add(TOPIC, "G", 0, 1000)
        _read(pair, chance, _ack)
        assert all(record.body for record in pair.first.log())


def _pull(chance: Random) -> Command:
    fields: dict[str, Any] = {
        "consumer_group": "CG",
        "topic": TOPIC,
        "queue_id": chance.choice((0, 0, 1, 3, 4, -1)),
        "queue_offset": chance.choice((0, 1, 5, 6, -1)),
        "max_msg_nums": 32,
        "sys_flag": chance.choice((2, 6, 0)),
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 1,
        "subscription": chance.choice(("*", "TagA", "a || b")),
        "expression_type": "TAG",
    }
    if chance.random() < 0.2:
        name = chance.choice(("queue_id", "queue_offset", "max_msg_nums", "sys_flag", "max_msg_bytes"))
        fields[name] = shapes.number(chance)
    if chance.random() < 0.2:
        fields[chance.choice(("consumer_group", "topic", "subscription"))] = shapes.text(chance)
    return PullMessage(**fields).to_command()


@episode
def pulls(chance: Random) -> None:
    """Pulls of messages, and of what is not there."""
    with _pair(chance, PullMessage.CODE) as pair:
        for _ in range(5):
            body = shapes.blob(chance)
            for broker in (pair.first, pair.second):
                broker.send(queue_id=0, body=body)
        _read(pair, chance, _pull)


def _pop(chance: Random) -> Command:
    fields: dict[str, Any] = {
        "consumer_group": "CG",
        "topic": TOPIC,
        "queue_id": chance.choice((-1, -1, 0, 3, 4)),
        "max_msg_nums": chance.choice((1, 32, 33, 0)),
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": NOW,
        "init_mode": 0,
        "exp_type": "TAG",
        "exp": chance.choice(("*", "*", "TagA", "a || b")),
    }
    if chance.random() < 0.2:
        name = chance.choice(
            ("queue_id", "max_msg_nums", "invisible_time", "poll_time", "born_time", "init_mode")
        )
        fields[name] = shapes.number(chance)
    if chance.random() < 0.2:
        fields[chance.choice(("consumer_group", "topic", "exp", "attempt_id"))] = shapes.text(chance)
    return PopMessage(**fields).to_command()


@episode
def pops(chance: Random) -> None:
    """Pops and acknowledgements in one read. No second broker: what is served changes what is left."""
    with _folder() as folder:
        broker = _broker(folder, mappedFileSizeCommitLog=(1 << 18) + chance.randrange(4096))
        try:
            for _ in range(5):
                broker.send(queue_id=0, body=shapes.blob(chance))
            for _ in range(12):
                frames = []
                for opaque in range(chance.choice((1, 1, 2, 5))):
                    command = _pop(chance) if chance.random() < 0.8 else _ack(chance)
                    command.opaque = opaque
                    frames.append(shapes.frame(command, chance, 0.25))
                data = b"".join(frames)
                for take in (broker.handle_pops, broker.handle_acks):
                    taken = take(data, PEER, NOW + 1)
                    end = 0 if taken is None else taken.end
                    assert decode_frames(data[:end], MAX_FRAME_BYTES)[1] == end
                    data = data[end:]
            whole = shapes.frame(_pop(chance), chance, 0)
            for end in {*range(min(len(whole), 400)), *(chance.randrange(len(whole)) for _ in range(60))}:
                assert broker.handle_pops(whole[:end], PEER, NOW + 1) is None
            assert all(record.size for record in broker.log())
        finally:
            broker.close()


@episode
def admissions(chance: Random) -> None:
    """Signed requests, some of them damaged: only those pass whose signature is right."""
    users = access.gate(access.table(access.entry(f"Topic:{TOPIC}"), access.entry("Group:*")))
    makers = (_send, _batch, _pull, _pop, _ack)
    for _ in range(12):
        frames = []
        for opaque in range(chance.choice((1, 2, 4))):
            command = chance.choice(makers)(chance)
            command.opaque = opaque
            chance.choice((access.ANN, access.ANN, access.ROOT)).sign(command)
            if chance.random() < 0.1 and command.ext is not None:
                command.ext[chance.choice(("Signature", "AccessKey", "x", "topic"))] = shapes.text(chance)
            frames.append(shapes.frame(command, chance, 0.3))
        data = b"".join(frames)
        end = users.admitted_bytes(data, access.peer(), access.NOW)
        admitted, whole = decode_frames(data[:end], MAX_FRAME_BYTES)
        assert whole == end
        for command in admitted:
            who = {one.access_key: one for one in (access.ANN, access.ROOT)}[(command.ext or {})["AccessKey"]]
            assert is_signed_with(who.secret_key, command)
    for end in {*range(min(len(frames[0]), 400)), *(chance.randrange(len(frames[0])) for _ in range(60))}:
        assert users.admitted_bytes(frames[0][:end], access.peer(), access.NOW) == 0


@episode
def transactions(chance: Random) -> None:
    """Half messages, and decisions about these and others. No second broker: op records are shared."""
    with _folder() as folder:
        broker = _broker(folder, mappedFileSizeCommitLog=(1 << 18) + chance.randrange(4096))
        try:
            known: list[dict[str, str]] = []
            for _ in range(12):
                commands = []
                for opaque in range(chance.choice((1, 3, 6))):
                    command = _decision(chance, known) if known and chance.random() < 0.6 else _send(chance)
                    command.opaque = opaque
                    commands.append(command)
                answers = broker.read(_well_formed(commands, chance), NOW + 1)
                known += [fields for _, fields, _ in answers.values() if fields.get("transactionId")]
            assert all(record.size for record in broker.log())
        finally:
            broker.close()


def _well_formed(commands: list[Command], chance: Random) -> bytes:
    """The frames that can be read."""
    whole = []
    for command in commands:
        data = shapes.frame(command, chance, 0.2)
        with contextlib.suppress(MalformedFrame):
            found, end = decode_frames(data, MAX_FRAME_BYTES)
            if (
                end == len(data)
                and {one.code for one in found} <= {310, 37}
                and not any(one.flag & 1 for one in found)
            ):
                whole.append(data)
    return b"".join(whole)


def _decision(chance: Random, known: list[dict[str, str]]) -> Command:
    about = chance.choice(known[-8:])
    offsets = [int(about["queueOffset"]), int(about["msgId"][-16:], 16)]
    if chance.random() < 0.2:
        offsets[chance.randrange(2)] = shapes.number(chance)
    transaction_id = about["transactionId"] if chance.random() < 0.8 else shapes.text(chance)
    group = "PG" if chance.random() < 0.9 else shapes.text(chance)
    what = chance.choice((8, 8, 12, 12, 0, 9))
    return EndTransaction(
        producer_group=group, tran_state_table_offset=offsets[0], commit_log_offset=offsets[1],
        commit_or_rollback=what, msg_id=transaction_id, transaction_id=transaction_id, topic=TOPIC,
    ).to_command()  # fmt: skip


@episode
def headers(chance: Random) -> None:
    """Frames of both encodings: whole or in pieces they are the same commands."""
    for _ in range(20):
        frames = []
        for _ in range(chance.randint(1, 3)):
            ext = {shapes.text(chance)[:40]: shapes.text(chance) for _ in range(chance.randint(0, 6))}
            command = Command(chance.randrange(400), 7, 0, ext, shapes.blob(chance))
            if chance.random() < 0.3:
                command.remark = shapes.text(chance)
            frames.append(shapes.frame(command, chance, 0.7))
        data = b"".join(frames)
        if chance.random() < 0.3:
            data = data[: chance.randrange(len(data) + 1)]
        TARGETS["frames"].run(data) if len(data) < 3000 else _in_pieces(data, chance)


def _in_pieces(data: bytes, chance: Random) -> None:
    try:
        whole, end = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    assert end <= len(data)
    splitter, found, at = FrameSplitter(MAX_FRAME_BYTES), [], 0
    while at < len(data):
        step = chance.choice((1, 7, 4096, 65_536))
        found += splitter.feed(data[at : at + step])
        at += step
    assert [repr(one) for one in found] == [repr(one) for one in whole]


# ---- records and files ----


@episode
def records(chance: Random) -> None:
    """Stored records with other lengths, cut off anywhere, to all who read them."""
    for _ in range(12):
        whole = [shapes.record(chance, number) for number in range(chance.choice((1, 1, 3)))]
        data = b"".join(
            shapes.damaged(one, chance, LENGTHS) if chance.random() < 0.8 else one for one in whole
        )
        data = data[: chance.randrange(len(data) + 1)] if chance.random() < 0.2 else data
        TARGETS["records"].run(data)
        found, bad = decode_records(data)
        split, split_bad = split_records(data)
        assert list(map(joined_record, split)) == found
        assert list(map(str, split_bad)) == list(map(str, bad))
        for one in found:
            TARGETS["properties"].run(one.properties)
            with contextlib.suppress(BadRecord, CompressionError):
                plain_messages(one, 100_000)
        scanner = RecordScanner(tuple(COLUMN_TYPES), skip_bad=True)
        scanner.scan(data)
        batch = scanner.take()
        batch.validate(full=True)
        scanner.scan_log(data, 0, len(data), 0, 1 << 20)
        scanner.take().validate(full=True)


@episode
def columns(chance: Random) -> None:
    """Answers to pulls, and commit logs, damaged and cut anywhere, as Spark reads them."""
    for _ in range(12):
        whole = [shapes.record(chance, number) for number in range(chance.choice((1, 3, 8)))]
        data = b"".join(
            shapes.damaged(one, chance, LENGTHS) if chance.random() < 0.4 else one for one in whole
        )
        data = data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data
        names = chance.sample(list(COLUMN_TYPES), chance.randint(1, len(COLUMN_TYPES)))
        scanner = RecordScanner(
            names,
            topic=chance.choice((None, "T", "T" * 60)),
            tags=chance.choice((None, frozenset({"a", "ab"}), frozenset({shapes.text(chance)}))),
            from_time_ms=chance.choice((None, 0, 3)),
            skip_bad=True,
            max_body_bytes=100_000,
        )
        first = chance.choice((0, 0, 1, shapes.number(chance) % (1 << 63)))
        rows = scanner.scan(data, first, chance.choice((MAX_QUEUE_OFFSET, min(first + 2, MAX_QUEUE_OFFSET))))
        assert rows == scanner.rows
        start = chance.randrange(len(data) + 1)
        found = scanner.scan_log(
            data, start, len(data), chance.choice((0, 1 << 40)), chance.choice((0, 1 << 20))
        )
        assert start <= found.position <= len(data)
        scanner.take().validate(full=True)


@episode
def texts(chance: Random) -> None:
    """Bodies, filters and properties that are as long as a field may be."""
    for name in ("json", "bodies", "replies", "request_fields", "properties", "sql92", "texts", "compressed"):
        target = TARGETS[name]
        seed = bytearray(chance.choice(list(target.seeds())))
        at = chance.randint(0, len(seed))
        filling = chance.choice((*shapes.TOKENS, b"a", b" ", b"a\x01b\x02", seed[:40] or b"a"))
        size = shapes.size(chance)
        seed[at:at] = (bytes(filling) * (size // len(filling) + 1))[:size]
        target.run(shapes.damaged(bytes(seed), chance))


@episode
def inner_batches(chance: Random) -> None:
    """Batches with other lengths, as peers send and brokers store them."""
    for _ in range(30):
        parts = [(1, shapes.blob(chance), shapes.properties(chance).encode()[:32_700]) for _ in range(3)]
        data = encode_batch(parts)
        data = shapes.damaged(data, chance, (0, 4, 12, 16, 20)) if chance.random() < 0.9 else data
        for read in (split_batch, measure_batch):
            with contextlib.suppress(BadRecord):
                read(data)
        out = bytearray(chance.choice((500, len(data) + 1000)))
        with contextlib.suppress(BadRecord, RecordTooLarge):
            units = encode_batch_records(
                out,
                chance.choice((0, 7)),
                0,
                0,
                0,
                0,
                NOW,
                HOST,
                NOW,
                HOST,
                0,
                data,
                b"T" * chance.choice((1, 200)),
            )
            assert len(units) == 20 * measure_batch(data)[0]


class _Log:
    """Segments in memory, as `Picked` asks for them."""

    def __init__(self, segments: list[Any]) -> None:
        self._segments = segments

    def find(self, physical_offset: int) -> Any:
        for segment in self._segments:
            if segment.start <= physical_offset < segment.start + segment.wrote:
                return segment
        return None

    def next_segment_start(self, physical_offset: int) -> int:
        return min(
            (one.start for one in self._segments if one.start > physical_offset), default=physical_offset + 1
        )

    def resident_to(self, physical_offset: int, size: int) -> int:
        return physical_offset + size


def _units(chance: Random, units: list[tuple[int, int, int]]) -> bytes:
    """Queue units, of which some point anywhere."""
    data = b"".join(UNIT.pack(*unit) for unit in units)
    if not data or chance.random() < 0.1:
        return data
    places = tuple(at + 20 * number for number in range(len(units)) for at in (0, 0, 8, 12))
    return shapes.damaged(data, chance, places)


@episode
def queue_units(chance: Random) -> None:
    """Units with other offsets and sizes, over records with other lengths: only what is whole is served."""
    segments, units, base = [], [], 1 << chance.choice((0, 20, 40))
    for _ in range(2):
        data = bytearray()
        for _ in range(3):
            one = shapes.record(chance, len(units), base + len(data))
            units.append((base + len(data), len(one), 0))
            data += shapes.damaged(one, chance, LENGTHS) if chance.random() < 0.3 else one
        segments.append(SimpleNamespace(start=base, wrote=len(data), view=memoryview(bytes(data))))
        base += len(data) + chance.choice((0, 0, 1000))
    log = _Log(segments)
    topic = bytes(decode_topic(segments[0].view))
    for _ in range(20):
        held = _units(chance, units)
        assert 0 <= count_valid(held) <= len(held) // 20
        first = chance.randrange(8)
        assert 0 <= count_confirmed(bytearray(held), first, base) <= max(0, len(held) // 20 - first)
        into = bytearray(chance.choice((100, 5000, 200_000))) if chance.random() < 0.5 else None
        picked = Picked(
            chance.randrange(4), topic, None, True, 32, 1 << 20, (1 << 18, 32, 1 << 16, 8), base, 1 << 30,
            chance.choice((0, 1 << 62)), log, chance.random() < 0.5, None, into,
        )  # fmt: skip
        picked.pick(held[: len(held) // 20 * 20], 0)
        if into is None:
            served = b"".join(picked.records)
            assert len(served) == picked.size_bytes
            assert len(record_offsets(picked.records)) == picked.count
        elif not picked.is_large:
            served = bytes(into[: picked.size_bytes])
        else:
            continue
        assert len(decode_records(served)[0]) == picked.count


def decode_topic(view: memoryview) -> bytes:
    """Of the first record; any where that is damaged."""
    with contextlib.suppress(BadRecord):
        return decode_record(view).topic.encode()
    return b"T"


@episode
def index_chains(chance: Random) -> None:
    """An index file in which anything may stand: chains end, and nothing beside the file is looked at."""
    slots, entries = chance.choice((1, 7, 100)), chance.choice((1, 2, 50))
    whole = 40 + 4 * slots + 20 * entries
    file = bytearray(chance.randbytes(whole) if chance.random() < 0.3 else whole)
    if chance.random() < 0.2:
        del file[chance.randrange(len(file)) :]
    at_entry = 1
    for number in range(20):
        what = chance.randrange(5)
        key_hash = abs(shapes.number(chance)) & 0x7FFFFFFF
        with contextlib.suppress(IndexError):
            if what == 0:
                hashes = [key_hash, 3, 3 + slots]
                index_cy.put_entries(file, slots, at_entry, hashes, shapes.number(chance) % (1 << 63), number)
                at_entry += 3
            elif what == 1:
                data = b"".join(shapes.record(chance, 0, 0) for _ in range(2))
                data = shapes.damaged(data, chance, LENGTHS) if chance.random() < 0.5 else data
                end, made, _, _, _ = index_cy.put_records(file, slots, at_entry, entries, -1, data, 0, 9)
                assert 0 <= end <= len(data)
                at_entry += made
            elif what == 2:
                assert index_cy.link_slots(file, slots, chance.choice((entries, entries + 1, at_entry))) >= 0
            else:
                first = index_cy.first_entry(file, slots, key_hash)
                found, left = index_cy.find_entries(
                    file, slots, chance.choice((entries, entries + 1)), key_hash, 0, 1 << 40, 64, first, 100
                )
                assert len(found) <= 64
                assert left < max(first, 1)
        if file and chance.random() < 0.5:
            at = chance.randrange(len(file))
            file[at : at + 4] = (shapes.number(chance) % (1 << 32)).to_bytes(4, "big")[: len(file) - at]


@episode
def waiting_units(chance: Random) -> None:
    """Delayed and timer messages by damaged units, in a log in which some records are damaged."""
    with _folder() as folder:
        broker = _broker(folder, mappedFileSizeCommitLog=(1 << 16) + chance.randrange(4096))
        store = broker.store
        try:
            for number in range(chance.choice((5, 60, 200))):
                topic = (SCHEDULE_TOPIC, TIMER_TOPIC)[number % 2]
                entries = f"REAL_TOPIC\x01{TOPIC}\x02REAL_QID\x011\x02TIMER_OUT_MS\x01{NOW + 3000}"
                held = shapes.properties(chance, entries).replace("\x00", "").encode()[:30_000]
                queue_id = 2 if topic == SCHEDULE_TOPIC else 0
                store.append(
                    PendingMessage(topic, queue_id, 0, 0, NOW, HOST, HOST, 0, 0, shapes.blob(chance), held),
                    NOW,
                )
            for topic, queue_id in ((SCHEDULE_TOPIC, 2), (TIMER_TOPIC, 0)):
                end = store.max_offset(topic, queue_id)
                found = [store.physical_offset_of(topic, queue_id, at) for at in range(max(0, end - 8), end)]
                known = [(unit[0], unit[1], 0) for unit in found if unit is not None]
                for _ in range(10):
                    _copy_or_plan(broker, topic, known, chance)
        finally:
            broker.close()


def _copy_or_plan(broker: RealBroker, topic: str, known: list[tuple[int, int, int]], chance: Random) -> None:
    store = broker.store
    writer = store.appending.reserve(NOW)
    if writer is None:
        return
    begins = [unit[0] - writer.segment_start for unit in known if unit[0] >= writer.segment_start]
    undo = None
    if begins and chance.random() < 0.4:
        at = chance.choice(begins) + chance.choice(LENGTHS)
        undo = at, writer.view[at]
        writer.view[at] = chance.randrange(256)
    units = _units(chance, [unit for unit in known if chance.random() < 0.7])
    try:
        if topic == SCHEDULE_TOPIC:
            made: Any = copy_due(units, NOW, writer, HALF_TOPICS)
        else:
            planned = plain_units(
                units,
                NOW,
                writer,
                0,
                100,
                lambda _: (-1, -1, 0),
                1000,
                86_400_000,
                NOW - 1000,
                1 << 40,
                -1,  # type: ignore[arg-type,return-value]
            )
            made = None
            assert planned is None or len(planned.units) % 52 == 0
    finally:
        if undo is not None:
            writer.view[undo[0]] = undo[1]
    if made is None:
        store.appending.rollback(writer)
    else:
        store.appending.commit(writer)


@episode
def masters_logs(chance: Random) -> None:
    """Records that a slave is sent, some damaged: plain ones are sound, and get their units."""
    base = 1 << chance.choice((12, 20, 40))
    data = bytearray()
    for _ in range(chance.randint(1, 8)):
        one = shapes.record(chance, chance.choice((0, 0, 0, 1)), base + len(data))
        data += shapes.damaged(one, chance, LENGTHS) if chance.random() < 0.2 else one
    sent = bytes(data)
    room = chance.choice((len(sent), len(sent) + 8, 1 << 30))
    whole = end_of_plain(memoryview(sent), base, room, chance.choice((1000, 1 << 22)))
    scan = scan_records(sent, 0, whole, base, False)
    assert (scan.position, scan.reason) == (whole, "")
    assert whole + 8 <= max(8, room)
    for start, end in ((0, whole), (chance.randint(-1, len(sent)), chance.randint(0, len(sent) + 9))):
        queues = {
            topic: {
                number: SimpleNamespace(max_offset=0, dirty=False, tail=bytearray(), code_is_special=False)
                for number in range(3)
            }
            for topic in {record[6] for record in scan.records}
        }
        dirty: list[Any] = []
        at, last_record, _ = put_plain_units(sent, start, end, base, queues, frozenset(), dirty)
        assert start <= at <= max(start, min(end, len(sent)))
        assert len(dirty) == sum(bool(queue.tail) for one in queues.values() for queue in one.values())
        if (start, end) != (0, whole):
            continue
        done = [record for record in scan.records if record[0] < base + at]
        assert last_record == (done[-1][0] if done else -1)
        for topic, of_topic in queues.items():
            for number, queue in of_topic.items():
                units = [
                    UNIT.pack(record[0], record[1], record[7])
                    for record in done
                    if record[6] == topic and record[2] == number and not record[5] & 4
                ]
                assert queue.tail == b"".join(units)


@episode
def store_files(chance: Random) -> None:
    """A file of a store that ends anywhere, or holds other numbers: it starts, and reads what was stored."""
    what = chance.randrange(12) | (0x80 if chance.random() < 0.5 else 0)
    held = (shapes.number(chance) % (1 << 64)).to_bytes(8, "big")[-chance.choice((1, 2, 4, 8)) :]
    TARGETS["store_files"].run(bytes([what]) + chance.randrange(1 << 17).to_bytes(3, "big") + held)


@episode
def timer_files(chance: Random) -> None:
    """A file of the timers that holds other numbers, or is gone: it starts, and none comes early."""
    held = (shapes.number(chance) % (1 << 64)).to_bytes(8, "big")[-chance.choice((1, 2, 4, 8)) :]
    what = chance.randrange(6) | (0x80 if chance.random() < 0.2 else 0)
    TARGETS["timer_files"].run(bytes([chance.randrange(2), what]) + chance.randbytes(3) + held)
