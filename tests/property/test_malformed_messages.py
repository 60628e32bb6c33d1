"""Bytes that are no messages: a typed error, and never a crash, a hang or much memory."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.records import ids
from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.compression import CompressionError, deflate, inflate
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord, RecordTooLarge
from orbitmq.protocol.records.message_cy import (
    decode_record,
    decode_records,
    joined_record,
    read_header,
    split_records,
)
from orbitmq.protocol.records.properties import (
    BadProperty,
    decode_properties,
    encode_properties,
    find_property,
    index_hashes,
    index_keys,
    tags_code,
)
from orbitmq.protocol.records.scanning_cy import locate_records, scan_records
from orbitmq.protocol.records.scans import Stop
from tests.property.strategies import PROPERTY_BYTES, RECORDS
from tests.wire.vector_files import load

VECTORS = [bytes.fromhex(vector["record_hex"]) for vector in load("store_messages")["records"]]
KINDS = [0, 0x100, 0x200, 0x300]
HOST = bytes(8)


def read_in_every_way(raw: bytes) -> None:
    """Whatever reads records, on the same bytes; only BadRecord may come out, and they have to agree."""
    try:
        record = decode_record(raw)
    except BadRecord as error:
        record, reason = None, error.reason
    with contextlib.suppress(BadRecord):
        read_header(raw)
    # The scan expects of a record that it stands where it says, so it is told just that.
    scan = scan_records(raw, 0, len(raw), int.from_bytes(raw[28:36], "big", signed=True))
    assert 0 <= scan.position <= len(raw)
    assert (scan.stop is Stop.BAD) == bool(scan.reason)
    located = locate_records(raw)
    assert len(located.table) % 64 == 0
    records, bad = decode_records(raw)
    split, split_bad = split_records(raw)
    assert list(map(joined_record, split)) == records
    assert list(map(str, split_bad)) == list(map(str, bad))
    if record is None:
        assert not scan.records
        assert not len(located.table)
        assert not raw or bad[0].reason == reason
        if scan.stop is Stop.BAD:
            assert scan.reason == located.reason == reason
    else:
        assert records[0] == record
        assert len(located.table) >= 64
        with contextlib.suppress(BadRecord, CompressionError):
            plain_messages(record, 100_000)


@pytest.mark.parametrize("raw", VECTORS, ids=range(len(VECTORS)))
def test_cut_off_at_every_byte(raw: bytes) -> None:
    size = int.from_bytes(raw[:4], "big")
    for end in range(size):
        with pytest.raises(BadRecord):
            decode_record(raw[:end])
        with pytest.raises(BadRecord):
            read_header(raw[:end])
        read_in_every_way(raw[:end])


@pytest.mark.parametrize("number", [0, 2, 4, 12])
def test_every_length_wrong(number: int) -> None:
    """Each byte set to each of a few values: lengths grow beyond, shrink below and turn negative."""
    raw = VECTORS[number]
    for place in range(len(raw)):
        for value in (0, 0x7F, 0xFF):
            read_in_every_way(raw[:place] + bytes([value]) + raw[place + 1 :])


@given(RECORDS, st.data())
def test_mutated(raw: bytes, data: st.DataObject) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    read_in_every_way(bytes(changed))
    cut = data.draw(st.integers(0, len(changed)))
    read_in_every_way(bytes(changed[cut:]))
    read_in_every_way(bytes(changed[:cut]))


@given(st.binary(max_size=300))
def test_random_bytes(raw: bytes) -> None:
    read_in_every_way(raw)
    read_in_every_way(bytes.fromhex("00000100daa320a7") + raw)
    with contextlib.suppress(BadRecord):
        split_batch(raw)
    for kind in range(0, 0x800, 0x100):
        with contextlib.suppress(CompressionError):
            assert len(inflate(raw, kind, 1000)) <= 1000
    decode_properties(raw)
    tags_code(raw)
    index_keys("t", raw)
    index_hashes("t", raw)
    with contextlib.suppress(ids.MalformedAddress):
        ids.unpack_host(raw)


@pytest.mark.parametrize("position", [-1, -100, 1 << 40])
def test_positions_outside(position: int) -> None:
    with pytest.raises(BadRecord):
        decode_record(VECTORS[0], position)
    with pytest.raises(BadRecord):
        read_header(VECTORS[0], position)
    with pytest.raises(RecordTooLarge):
        encode_record(bytearray(500), position, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"", b"t", b"")
    if position < 0:
        with pytest.raises(ValueError, match="a scan"):
            scan_records(VECTORS[0], position, 100, 0)
        with pytest.raises(ValueError, match="a scan"):
            locate_records(VECTORS[0], position)
    else:
        assert scan_records(VECTORS[0], position, position + 100, 0).stop is Stop.END
        assert not locate_records(VECTORS[0], position).table


@given(PROPERTY_BYTES, st.integers(0, 100))
def test_zero_byte_in_properties(properties: bytes, place: int) -> None:
    place = min(place, len(properties))
    with_zero = properties[:place] + b"\x00" + properties[place:]
    out = bytearray(5000)
    encode_record(out, 0, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"b", b"t", with_zero)
    with pytest.raises(BadRecord, match="zero byte"):
        decode_record(out)
    assert scan_records(out, 0, len(out), 0).reason == "a zero byte in the properties"
    with pytest.raises(BadRecord, match="zero byte"):
        split_batch(encode_batch([(0, b"b", with_zero)]))


def test_bad_record_between_good_ones_is_stepped_over() -> None:
    good = VECTORS[0]
    bad = bytearray(VECTORS[1])
    bad[90] ^= 1
    records, found = decode_records(good + bad + good)
    assert [record.body for record in records] == [b"hello world"] * 2
    (error,) = found
    assert error.position == len(good)
    assert "checksum" in error.reason
    assert len(decode_records(good + bad + good, check_crc=False)[0]) == 3
    records, found = decode_records(good + b"\xff" * 100 + good)
    assert len(records) == len(found) == 1


@pytest.mark.parametrize("body", [encode_batch([(1, b"body", b"a\x01b\x02"), (2, b"", b"")])])
def test_batches_cut_off_and_changed(body: bytes) -> None:
    whole = len(encode_batch([(1, b"body", b"a\x01b\x02")]))
    for end in range(len(body)):
        if end not in (0, whole):
            with pytest.raises(BadRecord):
                split_batch(body[:end])
    for place in range(len(body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            with contextlib.suppress(BadRecord):
                split_batch(body[:place] + bytes([value]) + body[place + 1 :])


@given(st.sampled_from(KINDS), st.binary(min_size=1, max_size=300), st.data())
def test_streams_cut_off_and_changed(kind: int, body: bytes, data: st.DataObject) -> None:
    packed = bytearray(deflate(body * 3, kind))
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(CompressionError):
        inflate(bytes(packed[:cut]), kind, 10_000)
    with pytest.raises(CompressionError):
        inflate(bytes(packed) + b"more", kind, 10_000)
    packed[cut] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CompressionError):
        assert len(inflate(bytes(packed), kind, 10_000)) <= 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_bombs_take_no_memory(kind: int) -> None:
    bomb = deflate(bytes(64 << 20), kind, 1)
    assert len(bomb) < 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="inflates to more than"):
            inflate(bomb, kind, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x700])
def test_unknown_compression(kind: int) -> None:
    with pytest.raises(CompressionError, match="unknown"):
        inflate(b"", kind, 10)
    with pytest.raises(ValueError, match="no kind"):
        deflate(b"", kind)


def test_lengths_do_not_take_memory() -> None:
    """A record or batch that claims two gigabytes costs nothing."""
    claims = bytes.fromhex("7fffffffdaa320a7") + bytes(300)
    batch = bytes.fromhex("7fffffff") + bytes(12) + bytes.fromhex("7fffffff") + bytes(300)
    tracemalloc.start()
    try:
        with pytest.raises(BadRecord):
            decode_record(claims)
        with pytest.raises(BadRecord):
            split_batch(batch)
        assert scan_records(claims, 0, 1 << 40, 0).stop is Stop.BAD
        assert locate_records(claims, 0, 1 << 40, True, 1 << 40).stop is Stop.BAD
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


BAD_NUMBERS = [
    (0, 1 << 31),
    (1, -(1 << 31) - 1),
    (2, 1 << 63),
    (3, -(1 << 63) - 1),
    (9, 1 << 40),
    (10, 1 << 70),
]


@pytest.mark.parametrize(("place", "number"), BAD_NUMBERS)
def test_numbers_that_do_not_fit(place: int, number: int) -> None:
    fields: list[object] = [0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0]
    fields[place] = number
    out = bytearray(500)
    with pytest.raises(OverflowError):
        encode_record(out, 0, *fields, b"body", b"topic", b"")  # type: ignore[arg-type]
    assert out == bytes(500)


def test_parts_that_do_not_fit() -> None:
    def encode(
        out: bytearray, body: bytes = b"", topic: bytes = b"t", properties: bytes = b"", **more: bool
    ) -> int:
        return encode_record(
            out,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            HOST,
            0,
            HOST,
            0,
            0,
            body,
            topic,
            properties,
            **more,  # type: ignore[arg-type]
        )

    out = bytearray(92)
    assert encode(out) == 92
    with pytest.raises(RecordTooLarge, match="do not fit"):
        encode(out, b"b")
    with pytest.raises(RecordTooLarge, match="properties"):
        encode(bytearray(100_000), properties=b"p" * 32_768)
    with pytest.raises(RecordTooLarge, match="properties"):
        encode(bytearray(100_000), properties=b"p" * 32_747, append_property_crc=True)
    assert encode(bytearray(100_000), properties=b"p" * 32_746, append_property_crc=True) == 92 + 32_767
    with pytest.raises(RecordTooLarge, match="topic"):
        encode(bytearray(100_000), topic=b"t" * 32_768)
    with pytest.raises(RecordTooLarge, match="properties"):
        encode_batch([(0, b"", b"p" * 32_768)])
    for hosts in ((b"", HOST), (HOST, bytes(9))):
        with pytest.raises(ValueError, match="8 or 20 bytes"):
            encode_record(out, 0, 0, 0, 0, 0, 0, 0, hosts[0], 0, hosts[1], 0, 0, b"", b"t", b"")
    with pytest.raises((TypeError, BufferError)):
        encode_record(bytes(200), 0, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"", b"t", b"")


@given(st.text(max_size=60))
def test_ids_of_anything(text: str) -> None:
    for parse in (ids.parse_offset_message_id, ids.parse_unique_id):
        with contextlib.suppress(ids.MalformedId):
            parse(text)
    with contextlib.suppress(ids.MalformedAddress):
        ids.pack_host(text, 1)


@pytest.mark.parametrize(
    "text", ["", "7F", "g" * 32, " " * 32, "7F 0" * 8, "\uff17" * 32, "0" * 40, "0" * 55]
)
def test_no_ids(text: str) -> None:
    with pytest.raises(Malformed):
        ids.parse_offset_message_id(text)
    with pytest.raises(Malformed):
        ids.parse_unique_id(text)


@pytest.mark.parametrize(
    "found", [{"a\x02": "b"}, {"a": "b\x02"}, {"a\x01": "b"}, {"a": "\x00"}, {"\x00": "b"}]
)
def test_properties_that_cannot_be_written(found: dict[str, str]) -> None:
    with pytest.raises(BadProperty):
        encode_properties(found)


def test_values_may_hold_the_first_separator() -> None:
    assert decode_properties(encode_properties({"a": "b\x01c"})) == {"a": "b\x01c"}
    assert find_property(b"a\x01b\x01c\x02", b"a") == b"b\x01c"
