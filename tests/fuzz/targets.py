"""Targets of the fuzzer: every parser that meets the network or a file, each as a function of bytes.

A target returns, or raises what it should not: an exception that is no typed refusal, or an answer that
contradicts another parser of the same bytes. A new target is one function with `@target`, and its seeds:
well-formed input from which the fuzzer starts.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orbitmq.broker.auth.policies import BadResource, parse_network, parse_resource
from orbitmq.broker.broker import Broker
from orbitmq.broker.filter.sql92 import BadExpression, compile_filter
from orbitmq.broker.filter.subscription import tag_codes
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.role.epochs import BadEpochs, Epochs
from orbitmq.console.decoding import Schema, UndecodableBody, decoder_of
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.options import OptionError
from orbitmq.options.properties import parse_properties, update_properties
from orbitmq.options.sources import read_file
from orbitmq.protocol import epoch_replication, replication
from orbitmq.protocol.bodies.registration import decode_compressed
from orbitmq.protocol.epoch_replication import Epoch, MasterReader, SlaveReader
from orbitmq.protocol.errors import Malformed, MalformedFrame, MalformedJson, Refused
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.records import ids
from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.compression import CompressionError, deflate, inflate
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record, decode_records, read_header
from orbitmq.protocol.records.properties import decode_properties, encode_properties, find_property
from orbitmq.protocol.records.properties_cy import index_hashes, index_keys, tags_code
from orbitmq.protocol.records.scanning_cy import locate_records, scan_records
from orbitmq.protocol.records.scans import Stop
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.remoting.signing import Credentials, is_signed_with
from orbitmq.protocol.replication import BadStream, PieceReader, ReportReader
from orbitmq.protocol.replication_sign_in import (
    Claim,
    SignInReader,
    Verdict,
    encode_challenge,
    encode_claim,
    encode_verdict,
)
from orbitmq.protocol.requests import every as _every  # noqa: F401 (it fills REQUESTS)
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.declare import REQUESTS
from orbitmq.server.metrics.http import BadRequest, parse_head
from orbitmq.store import MessageStore, StoreError
from orbitmq.store.errors import NotTheMasters
from orbitmq.testing.simulation.disk import MemoryDisk
from tests.fault.recorded_broker import with_small_wheel
from tests.kit.store import NOW, crash, message, options, query, read_queue
from tests.kit.timer_world import NOW as TIMERS_BEGIN_MS
from tests.kit.timer_world import TimerWorld
from tests.wire.all_bodies import BODIES
from tests.wire.vector_files import load

FRAME_LIMIT = 1 << 16
INFLATED_LIMIT = 1 << 16


class Target(NamedTuple):
    """One parser, and input that it takes."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


TARGETS: dict[str, Target] = {}


def target(
    seeds: Callable[[], Iterable[bytes]],
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Adds a target under the name of its function."""

    def add(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
        TARGETS[run.__name__] = Target(run, seeds)
        return run

    return add


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# Frames and headers.


def _frames() -> Iterator[bytes]:
    for vector in load("remoting_frames"):
        yield bytes.fromhex(vector["frame_hex"])
    command = Command(10, 7, 0, {"a": "b", "topic": "T\u00fc"}, b"body", "remark")
    yield encode_command(command) * 3


def _same(one: Command, other: Command) -> bool:
    return all(
        getattr(one, name) == getattr(other, name) for name in ("code", "opaque", "flag", "remark", "version")
    ) and (one.ext or {}) == (other.ext or {})


@target(_frames)
def frames(data: bytes) -> None:
    """However the bytes are cut, the same commands; what was read can be written and read again."""
    try:
        whole, taken = decode_frames(data, FRAME_LIMIT)
    except MalformedFrame:
        whole = None
    splitter = FrameSplitter(FRAME_LIMIT)
    found: list[Command] = []
    try:
        for at in range(0, len(data), 11):
            found += splitter.feed(data[at : at + 11])
            assert splitter.pending_bytes <= FRAME_LIMIT + 11
    except MalformedFrame:
        assert whole is None
        return
    assert whole is not None
    assert taken <= len(data)
    assert len(whole) == len(found)
    for one, other in zip(whole, found, strict=True):
        assert _same(one, other)
        with contextlib.suppress(UnicodeEncodeError, OverflowError):
            (again,), _ = decode_frames(encode_command(one), MAX_FRAME_BYTES)
            assert _same(one, again)


@target(_frames)
def requests(data: bytes) -> None:
    """Whatever a frame asks for is read into its request, or refused with a code of the protocol."""
    try:
        commands, _ = decode_frames(data, FRAME_LIMIT)
    except MalformedFrame:
        return
    for command in commands:
        _read_request(command)


def _read_request(command: Command) -> None:
    kind = REQUESTS.get(command.code)
    if kind is None:
        return
    try:
        request = kind.from_command(command)
    except Refused:
        return
    repr(request)


def _fields() -> Iterator[bytes]:
    for code, kind in REQUESTS.items():
        fields = "\n".join(f"{row.wire_name}={number}" for number, row in enumerate(kind.FIELDS))
        yield code.to_bytes(4, "big") + fields.encode() + b"\n\n{}"


@target(_fields)
def request_fields(data: bytes) -> None:
    """The same with the code, the header's fields and the body taken apart: the fuzzer gets deeper."""
    head, _, body = data[4:].partition(b"\n\n")
    codes = list(REQUESTS)
    code = int.from_bytes(data[:4], "big")
    if code not in REQUESTS:
        code = codes[code % len(codes)]
    ext = dict(line.partition("=")[::2] for line in head.decode("utf-8", "replace").split("\n"))
    _read_request(Command(code, 1, 0, ext, body))


# Bodies.


def _jsons() -> Iterator[bytes]:
    for vector in load("json_bodies")["bodies"].values():
        yield from (text.encode() for text in vector.values() if isinstance(text, str))
    yield b'{0:1,-2:{"a":[1.5e3,null,true]},{"brokerName":"b","queueId":0}:\'x\\u00e4\'}'


def _replies() -> Iterator[bytes]:
    for code, kind in REQUESTS.items():
        fields = "\n".join(f"{row.wire_name}={number}" for number, row in enumerate(kind.REPLY.FIELDS))
        yield code.to_bytes(4, "big") + fields.encode() + b"\n\n{}"


@target(_replies)
def replies(data: bytes) -> None:
    """The reading of an answer by a client, whoever gave it: its reply, or a typed error."""
    head, _, body = data[4:].partition(b"\n\n")
    codes = list(REQUESTS)
    code = int.from_bytes(data[:4], "big")
    kind = REQUESTS[code if code in REQUESTS else codes[code % len(codes)]]
    ext = dict(line.partition("=")[::2] for line in head.decode("utf-8", "replace").split("\n"))
    with contextlib.suppress(Malformed):
        repr(kind.REPLY.from_command(Command(0, 1, 1, ext, body)))


@target(_jsons)
def json(data: bytes) -> None:
    """A value that is read can be written and read again, to the same value."""
    try:
        value = fastjson.parse(data, 1 << 16)
    except MalformedJson:
        return
    text = fastjson.write(value)
    assert fastjson.write(fastjson.parse(text)) == text
    fastjson.write_pretty(value)


def _bodies() -> Iterator[bytes]:
    for number, name in enumerate(sorted(BODIES)):
        yield number.to_bytes(1, "big") + BODIES[name]().to_json()


@target(_bodies)
def bodies(data: bytes) -> None:
    """Any JSON as any body: refused, or a value that can be written."""
    names = sorted(BODIES)
    kind = BODIES[names[data[0] % len(names)]] if data else BODIES[names[0]]
    try:
        body = kind.from_json(data[1:])
    except MalformedJson:
        return
    body.to_json()
    body.to_standard_json()


def _registrations() -> Iterator[bytes]:
    yield zlib.decompress(bytes.fromhex(load("compressed_registration")["hex"]))


@target(_registrations)
def registration(data: bytes) -> None:
    """Registrations at name servers, as they are inflated: a fuzzer does not write checksums."""
    for version in (0, 470):
        for sent in (data, zlib.compress(data, 1)):
            with contextlib.suppress(Malformed):
                decode_compressed(sent, version)


# Messages.


def _records() -> Iterator[bytes]:
    for vector in load("store_messages")["records"]:
        yield bytes.fromhex(vector["record_hex"])


@target(_records)
def records(data: bytes) -> None:
    """All who read stored messages agree on what is one."""
    try:
        record = decode_record(data)
    except BadRecord:
        record = None
    with contextlib.suppress(BadRecord):
        read_header(data)
    scan = scan_records(data, 0, len(data), int.from_bytes(data[28:36], "big", signed=True))
    assert 0 <= scan.position <= len(data)
    assert (scan.stop is Stop.BAD) == bool(scan.reason)
    located = locate_records(data)
    found, _ = decode_records(data)
    if record is None:
        assert not scan.records
        assert not len(located.table)
    else:
        assert found[0] == record
        assert len(located.table) >= 64
        record.property_map()


def _batches() -> Iterator[bytes]:
    yield encode_batch([(1, b"body", b"a\x01b\x02"), (2, b"", b""), (0, b"x" * 40, b"TAGS\x01t\x02")])


@target(_batches)
def batch(data: bytes) -> None:
    with contextlib.suppress(BadRecord):
        parts = split_batch(data)
        assert sum(len(body) for _, body, _ in parts) <= len(data)


def _properties() -> Iterator[bytes]:
    yield b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x017F0000010B4218B4AAC2000000000001\x02DELAY\x013\x02"


@target(_properties)
def properties(data: bytes) -> None:
    """One property found by itself is the one of the map."""
    found = decode_properties(data)
    for name, value in found.items():
        with contextlib.suppress(UnicodeEncodeError):
            raw = find_property(data, name.encode())
            if "\ufffd" not in name + value and raw is not None and "\x00" not in name:
                assert raw.decode("utf-8", "replace") == value
    assert isinstance(tags_code(data), int)
    assert len(index_keys("t", data)) == len(index_hashes("t", data))
    with contextlib.suppress(Malformed, ValueError):
        assert decode_properties(encode_properties(found)) == found


def _compressed() -> Iterator[bytes]:
    for kind in (0, 0x100, 0x200, 0x300):
        yield bytes([kind >> 8]) + deflate(b"hello hello hello" * 20, kind)


@target(_compressed)
def compressed(data: bytes) -> None:
    if data:
        with contextlib.suppress(CompressionError):
            assert len(inflate(data[1:], (data[0] & 7) << 8, INFLATED_LIMIT)) <= INFLATED_LIMIT


# The HA port.


def _replicated() -> Iterator[bytes]:
    epochs = [Epoch(1, 0), Epoch(3, 700)]
    piece = replication.encode_header(4096, 5) + b"bytes" + replication.encode_header(4101, 0)
    yield b"\0" + replication.encode_report(0) + replication.encode_report(1 << 40)
    yield b"\1" + piece
    yield b"\2" + epoch_replication.encode_handshake(2) + epoch_replication.encode_report(900)
    answer = epoch_replication.encode_answer(900, epochs)
    yield b"\3" + answer + epoch_replication.encode_header(900, 5, epochs[1], 800) + b"bytes"
    yield b"\4" + encode_challenge(b"n" * 32) + encode_challenge(b"m" * 32)
    yield b"\5" + encode_claim(Claim("ann", b"n" * 32, b"p" * 32))
    yield b"\6" + encode_verdict(Verdict(None, "no such user"))
    yield b"\6" + encode_verdict(Verdict(b"p" * 32))


class _SignIn:
    """One message after the other out of a sign-in."""

    def __init__(self, name: str) -> None:
        self._reader = SignInReader()
        self._take = getattr(self._reader, name)

    def feed(self, data: bytes) -> list[Any]:
        found = []
        for at in range(len(data)):
            self._reader.feed(data[at : at + 1])
            if (message := self._take()) is not None:
                found.append(message)
        return found


_HA_READERS: tuple[Callable[[], Any], ...] = (
    ReportReader,
    PieceReader,
    SlaveReader,
    MasterReader,
    functools.partial(_SignIn, "challenge"),
    functools.partial(_SignIn, "claim"),
    functools.partial(_SignIn, "verdict"),
)


def _heard(reader: Any, pieces: Iterable[bytes]) -> list[Any] | None:
    """All that a reader makes of bytes; None where it refuses them."""
    found: list[Any] = []
    try:
        for piece in pieces:
            one = reader.feed(piece)
            found += one if isinstance(one, list) else [] if one is None else [one]
    except BadStream:
        return None
    return found


@target(_replicated)
def replication_streams(data: bytes) -> None:
    """The HA port of both kinds, and its sign-in: however the bytes are cut, the same is read."""
    if not data:
        return
    make = _HA_READERS[data[0] % len(_HA_READERS)]
    data = data[1:]
    whole = _heard(make(), [data])
    cut = _heard(make(), (data[at : at + 7] for at in range(0, len(data), 7)))
    if make in (ReportReader, SlaveReader):  # they tell the newest of a read alone
        assert (whole is None) == (cut is None)
        whole, cut = (whole or [])[-1:], (cut or [])[-1:]
    assert whole == cut


def _master_logs() -> Iterator[bytes]:
    disk, root = MemoryDisk(random.Random(0)), Path(tempfile.mkdtemp(dir=_fast_folder()))
    store = _opened(disk, root)
    for number in range(6):
        store.append(message(number, queue_id=number % 2, keys="k", tag="t", body=b"x" * 60), NOW + number)
    log = bytes(store.log.read(0, store.max_physical))
    crash(store)
    shutil.rmtree(root)
    yield bytes(2) + log
    yield b"\x01\x40" + log
    for at in (0, 4, 20, 28, 80):
        yield bytes(2) + log[:at] + b"\xff" * 8 + log[at + 8 :]


@target(_master_logs)
def followed_logs(data: bytes) -> None:
    """Bytes that a slave is sent as its master's log, cut anywhere: stored as whole records, or refused with
    a word. The first two bytes tell the segment that it begins with.
    """

    def run(root: Path) -> None:
        disk = MemoryDisk(random.Random(0))
        store = _opened(disk, root)
        begin = int.from_bytes(data[:2], "big") * store.options.mapped_file_size_commit_log
        log, step = data[2:], max(37, len(data) // 9)
        with contextlib.suppress(NotTheMasters, StoreError):
            for at in range(0, len(log), step):
                store.replica.append(begin + at, log[at : at + step])
        for topic in store.topics():
            for queue_id in store.queue_ids(topic):
                first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
                assert end - first <= begin + len(log)
                store.get(topic, queue_id, first, 32, 1 << 20)
        crash(store)

    _in_folder(run)


# Texts.


def _expressions() -> Iterator[bytes]:
    for name in ("sql92", "sql92_more"):
        for expression, _ in load(name)["cases"]:
            yield expression.encode("utf-8", "surrogatepass")
    yield b"a > 1 AND (b LIKE 'x%' OR c IS NOT NULL) AND d BETWEEN 1.5 AND 3 AND NOT e IN ('a','b')"


@target(_expressions)
def sql92(data: bytes) -> None:
    with contextlib.suppress(BadExpression):
        compiled = compile_filter(_text(data))
        for held in (
            b"",
            b"a\x015\x02b\x01xyz\x02c\x01\x02d\x012.5\x02",
            b"a\x01true\x02b\x01\xff\x02d\x011e400\x02",
        ):
            compiled.matches(held)


def _texts() -> Iterator[bytes]:
    yield b"TagA || TagB||*"
    yield b"0 1700000000000 60000 0 0 broker-a 3 17"
    yield b"Topic:T%Orders*"
    yield b"10.0.0.0/8"
    yield b"127.0.0.1:10911;[::1]:9876"
    yield RecallHandle("topic", "broker-a", 1700000000000, "id").encode().encode()
    for name in ("offsetMsgId", "uniqId"):
        yield from (vector[name].encode() for vector in load("message_ids")[name])


@target(_texts)
def texts(data: bytes) -> None:
    """Everything that is read from one header field or one flag."""
    text = _text(data)
    with contextlib.suppress(Refused):
        tag_codes(text)
    with contextlib.suppress(Malformed):
        handle = PopHandle.from_text(text)
        assert PopHandle.from_text(handle.to_text()) == handle
    with contextlib.suppress(Malformed):
        RecallHandle.decode(text)
    for parse in (ids.parse_offset_message_id, ids.parse_unique_id):
        with contextlib.suppress(Malformed):
            parse(text)
    with contextlib.suppress(Malformed):
        ids.unpack_host(data)
    with contextlib.suppress(BadResource):
        parse_resource(text)
    with contextlib.suppress(ValueError):
        parse_network(text)
    with contextlib.suppress(BadAddress):
        parse_addresses(text)


@target(lambda: [b"GET /metrics?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
def http(data: bytes) -> None:
    with contextlib.suppress(BadRequest):
        parse_head(data)


@target(lambda: [b"AccessKey=root\nSignature=abc=\na=b\n\nbody"])
def signatures(data: bytes) -> None:
    """No header but the right one passes."""
    head, _, body = data.partition(b"\n\n")
    ext = dict(line.partition("=")[::2] for line in _text(head).split("\n"))
    command = Command(10, 1, 0, ext, body)
    assert not is_signed_with("a secret that nobody guesses", command)
    signed = Command(10, 1, 0, dict(ext), body)
    signed.ext.pop("Signature", None)  # type: ignore[union-attr]
    Credentials("who", "a secret that nobody guesses").sign(signed)
    assert is_signed_with("a secret that nobody guesses", signed)
    signed.body = body + b"x"
    assert not is_signed_with("a secret that nobody guesses", signed)


# Files.


def _in_folder(run: Callable[[Path], Any]) -> None:
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        run(Path(folder))


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@target(lambda: [b"brokerName=a\nlistenPort=10911\n# comment\nnamesrvAddr = a:1;b:2\\\n  more\n"])
def properties_file(data: bytes) -> None:
    """A broker.conf. A changed line is there afterwards, and nothing else moved."""
    with contextlib.suppress(OptionError):
        pairs = parse_properties(data, "the file")
        changed = update_properties(data, {"fuzzed": "a = b \\ \u00e4"})
        after = parse_properties(changed.encode(), "the file")
        assert after.pop("fuzzed") == "a = b \\ \u00e4"
        for nothing in ("fuzzed", ""):  # a line without a key says nothing
            pairs.pop(nothing, None)
            after.pop(nothing, None)
        assert after == pairs


@target(lambda: [b'[broker]\nlistenPort = 1\nbrokerName = "a"\n[namesrv]\nx = true\n'])
def toml_file(data: bytes) -> None:
    def read(folder: Path) -> None:
        path = folder / "a.toml"
        path.write_bytes(data)
        with contextlib.suppress(OptionError):
            read_file(path)

    _in_folder(read)


@target(lambda: [Epochs([Epoch(1, 0), Epoch(3, 700)]).to_text().encode()])
def epoch_file(data: bytes) -> None:
    """`epochFileCheckpoint`: what is read can be written, and read again."""
    with contextlib.suppress(BadEpochs):
        found = Epochs.from_text(_text(data))
        assert Epochs.from_text(found.to_text()).entries == found.entries


_AVRO = Schema(
    "avro",
    '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":["null","long"]},'
    '{"name":"c","type":{"type":"array","items":"double"}},{"name":"d","type":{"type":"map","values":"bytes"}}]}',
)


@functools.cache
def _protobuf_schema() -> Schema:
    """Of messages that hold messages of their own kind."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="a.proto", syntax="proto3")
    kind = file.message_type.add(name="M")
    of = descriptor_pb2.FieldDescriptorProto
    kind.field.add(name="text", number=1, type=of.TYPE_STRING, label=of.LABEL_OPTIONAL)
    kind.field.add(name="numbers", number=2, type=of.TYPE_DOUBLE, label=of.LABEL_REPEATED)
    kind.field.add(name="inner", number=3, type=of.TYPE_MESSAGE, type_name=".M", label=of.LABEL_REPEATED)
    return Schema("protobuf", base64.b64encode(files.SerializeToString()).decode(), "M")


@functools.cache
def _decoder(number: int) -> Callable[[bytes], str]:
    return decoder_of(_protobuf_schema() if number else _AVRO)


@target(lambda: [b"\0\x04ab\x02\x06\x02" + bytes(8) + b"\0\x02\x02k\x02v\0", b"\1\x0a\x02ab\x1a\x02\x1a\0"])
def schema_bodies(data: bytes) -> None:
    """Bodies of messages by a schema of their topic, as the console shows them: JSON, or a word."""
    if data:
        with contextlib.suppress(UndecodableBody):
            assert isinstance(_decoder(data[0] & 1)(data[1:]), str)


def _tables() -> Iterator[bytes]:
    texts = (
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"offsetTable":{"T@G":{0:5,1:7}}}',
        b'{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":4,"writeQueueNums":4,"perm":6}}}',
        b'{"offsetTable":{1:5},"deliveredTo":77}',
        b'{"subscriptionGroupTable":{"G":{"groupName":"G","retryMaxTimes":16}}}',
        b'{"users":[{"username":"a","password":"b","userType":1}],"acls":[]}',
    )
    for number in range(10):
        for text in texts:
            yield bytes([number]) + text


@target(_tables)
def config_tables(data: bytes) -> None:
    """The JSON files of the folder `config`: each table takes a text or refuses it, and can be written
    again.
    """
    broker = _broker()
    tables = list(broker.files.values())
    _, snapshot, load_text = tables[(data[0] if data else 0) % len(tables)]
    with contextlib.suppress(Malformed):
        load_text(_text(data[1:]))
        snapshot()()


@functools.cache
def _empty_store() -> MessageStore:
    """Tables look at it, and store nothing."""
    return _opened(MemoryDisk(random.Random(0)), Path(tempfile.mkdtemp(dir=_fast_folder())))


def _broker() -> Broker:
    """A broker's rules, with tables that know nothing yet."""
    identity = BrokerIdentity("c", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912", bytes(8))
    settings = BROKER_TABLE.load([])
    store = _empty_store()
    return Broker(identity, settings, store, now=0, new_unique_id=str, figures=store.figures)


def _store_files() -> Iterator[bytes]:
    """The file, the place in it, and the bytes written there."""
    for number in range(12):
        for at in (0, 4, 20, 100, 1000):
            yield bytes([number]) + at.to_bytes(3, "big") + b"\xff" * 8
        yield bytes([number | 0x80]) + bytes(3)


@functools.cache
def _made_store() -> dict[Path, bytes]:
    """The files of a small store that ended without a word."""
    disk, root = MemoryDisk(random.Random(0)), Path(tempfile.mkdtemp(dir=_fast_folder()))
    store = _opened(disk, root)
    for number in range(120):
        store.append(message(number, queue_id=number % 2, keys="k", tag="t", body=b"x" * 300), NOW + number)
    store.flushing.flush_now()
    for task in store.periodic_tasks():
        task.run(NOW + 100_000)
    files = {path.relative_to(root): bytes(content.data) for path, content in disk.files.items()}
    crash(store)
    shutil.rmtree(root)
    return files


def _opened(disk: MemoryDisk, root: Path) -> MessageStore:
    return MessageStore.open(options(root, timer_wheel_enable=False), NOW + 200_000, disk)


@target(_store_files)
def store_files(data: bytes) -> None:
    """One file of a store overwritten, cut off or gone: the start repairs it or refuses with a word, and what
    is read afterwards is as it was stored.
    """
    if len(data) < 4:
        return

    def run(root: Path) -> None:
        files = dict(_made_store())
        names = sorted(files)
        name = names[(data[0] & 0x7F) % len(names)]
        content = bytearray(files[name])
        at = int.from_bytes(data[1:4], "big") % (len(content) + 1)
        if data[0] & 0x80:
            del content[at:]
        else:
            content[at : at + len(data) - 4] = data[4:][: len(content) - at]
        disk = MemoryDisk(random.Random(0))
        for path, held in files.items():
            file = disk.open(root / path, len(held) if path != name else len(content))
            file.write(0, bytes(content) if path == name else held)
        try:
            store = _opened(disk, root)
        except StoreError:
            return
        try:
            for queue_id in range(2):
                for record in read_queue(store, "T", queue_id):
                    assert record.body == b"x" * 300
            query(store, "T", "k", 64, 0, 1 << 60)
        finally:
            crash(store)

    _in_folder(run)


_TIMERS = 40


def _due_ms(number: int) -> int:
    return TIMERS_BEGIN_MS + 1_000 + number * 700


def _timer_world(disk: MemoryDisk, root: Path, after_ms: int = 0) -> TimerWorld:
    return TimerWorld(root, TIMERS_BEGIN_MS + after_ms, disk=disk, timer_roll_window_slot=100)


@contextlib.contextmanager
def _small_wheel() -> Iterator[None]:
    """A wheel of minutes: one of two weeks has 38 MB."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_small_wheel(monkeypatch)
        yield


@functools.cache
def _made_timers(is_clean: bool) -> dict[Path, bytes]:
    """The files of a store with timers, some of them over; closed in order, or not."""
    disk, root = MemoryDisk(random.Random(0)), Path(tempfile.mkdtemp(dir=_fast_folder()))
    with _small_wheel():
        world = _timer_world(disk, root)
        for number in range(_TIMERS):
            world.send(f"timer {number}", TIMER_DELIVER_MS=_due_ms(number))
        world.run(world.now + 8_000, 500)
        world.flush()
        if is_clean:
            world.store.timer_mark = world.timer.stop(world.now)
            world.store.close()
        else:
            world.kill()
    shutil.rmtree(root)
    return {path.relative_to(root): bytes(content.data) for path, content in disk.files.items()}


def _timer_files() -> Iterator[bytes]:
    """The kind of end, the file, the place in it, and the bytes written there."""
    for number in range(6):
        for at in (0, 8, 20, 52, 200):
            for is_clean in (0, 1):
                yield bytes([is_clean, number]) + at.to_bytes(3, "big") + b"\xff" * 8
        yield bytes([1, number | 0x80]) + bytes(3)


@target(_timer_files)
def timer_files(data: bytes) -> None:
    """One file of the timers overwritten or gone: the start repairs it or refuses with a word, timers come to
    an end, and what they deliver is as it was sent, and not early.
    """
    if len(data) < 5:
        return

    def run(root: Path) -> None:
        files = dict(_made_timers(bool(data[0] & 1)))
        names = sorted(
            path for path in files if "timer" in path.as_posix() and "queue" not in path.as_posix()
        )
        name = names[(data[1] & 0x7F) % len(names)]
        content = bytearray(files[name])
        at = int.from_bytes(data[2:5], "big") % len(content)
        if data[1] & 0x80:
            del files[name]
        else:
            content[at : at + len(data) - 5] = data[5:][: len(content) - at]
            files[name] = bytes(content)
        disk = MemoryDisk(random.Random(0))
        for path, held in files.items():
            disk.open(root / path, len(held)).write(0, held)
        with _small_wheel():
            try:
                world = _timer_world(disk, root, 9_000)
            except StoreError:
                return
            try:
                world.run(world.now + 60_000, 5_000)
                for record in world.records():
                    number = int(record.body.removeprefix(b"timer "))
                    assert number < _TIMERS
                    assert record.store_timestamp >= _due_ms(number), f"timer {number} came early"
            finally:
                world.kill()

    _in_folder(run)
