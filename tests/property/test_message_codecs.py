"""Written bytes are read back the same, whatever they are."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from orbitmq.protocol.records import ids
from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.checksums_cy import crc32
from orbitmq.protocol.records.compression import InflatedTooLarge, deflate, inflate
from orbitmq.protocol.records.encoding_cy import encode_record, record_size
from orbitmq.protocol.records.hashing import index_hash, java_hash
from orbitmq.protocol.records.message_cy import (
    decode_record,
    decode_records,
    joined_record,
    read_header,
    split_records,
)
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.properties import (
    decode_properties,
    encode_properties,
    find_property,
    index_hashes,
    index_keys,
    tags_code,
)
from orbitmq.protocol.records.queue_units import pack_unit, unpack_unit
from orbitmq.protocol.records.scanning_cy import locate_records, scan_records
from orbitmq.protocol.records.scans import Stop
from tests.property.strategies import (
    HOSTS,
    INT32,
    INT64,
    PROPERTY_BYTES,
    PROPERTY_MAPS,
    RECORD_FIELDS,
    TOPICS,
    encoded,
)


@given(RECORD_FIELDS, st.booleans())
def test_record(fields: tuple, append_crc: bool) -> None:  # type: ignore[type-arg]
    *numbers, body, topic, properties = fields
    out = bytearray(record_size(len(body), len(topic), len(properties), 20, 20, True) + 2)
    size = encode_record(out, 1, *fields, None, append_crc)
    record = decode_record(out, 1, check_property_crc=append_crc)
    assert record.size == size
    assert [
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag & ~0x30,
        record.born_timestamp,
        record.born_host,
        record.store_timestamp,
        record.store_host,
        record.reconsume_times,
        record.prepared_transaction_offset,
    ] == numbers
    assert (record.body, record.topic) == (body, topic.decode())
    assert bool(record.sys_flag & 0x10) == (len(record.born_host) == 20)
    assert bool(record.sys_flag & 0x20) == (len(record.store_host) == 20)
    if append_crc:
        assert decode_properties(record.properties[:-20]) == decode_properties(properties)
    else:
        assert record.properties == properties
        assert size == record_size(
            len(body), len(topic), len(properties), len(record.born_host), len(record.store_host)
        )
    header = read_header(out, 1)
    assert header[0] == size
    assert header[2:] == (
        record.queue_id,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.store_timestamp,
    )


@given(RECORD_FIELDS, st.data())
def test_property_checksum_covers_every_byte(fields: tuple, data: st.DataObject) -> None:  # type: ignore[type-arg]
    *_, body, topic, properties = fields
    out = bytearray(record_size(len(body), len(topic), len(properties), 20, 20, True))
    size = encode_record(out, 0, *fields, None, True)
    place = data.draw(st.integers(8, size - 22))
    bit = data.draw(st.integers(0, 7))
    out[place] ^= 1 << bit
    try:
        decode_record(out, 0, check_property_crc=True)
    except ValueError:
        return
    raise AssertionError(f"a flipped bit in byte {place} went unseen")


@given(st.lists(RECORD_FIELDS, max_size=6), st.integers(0, 1 << 60), st.booleans())
def test_log(parts: list[tuple], base: int, blank: bool) -> None:  # type: ignore[type-arg]
    log = bytearray()
    for fields in parts:
        log += encoded((*fields[:3], base + len(log), *fields[4:]))
    end = len(log)
    if blank:
        log += bytes(30)
        encode_blank(log, end, 30)
    scan = scan_records(log, 0, len(log), base)
    assert (scan.position, scan.stop) == (end, Stop.BLANK if blank else Stop.END)
    records, bad = decode_records(log[:end])
    assert not bad
    split, bad = split_records(log[:end])
    assert not bad
    assert list(map(joined_record, split)) == records
    position = 0
    table = memoryview(locate_records(log).table).cast("q")
    assert len(table) == 8 * len(records) == 8 * len(scan.records)
    for number, (record, scanned) in enumerate(zip(records, scan.records, strict=True)):
        assert scanned == (
            base + position,
            record.size,
            record.queue_id,
            record.queue_offset,
            record.store_timestamp,
            record.sys_flag,
            record.topic,
            tags_code(record.properties),
            record.properties,
        )
        at, size, stored, body, body_length, topic, topic_length, properties = table[
            number * 8 : number * 8 + 8
        ]
        assert (at, size) == (position, record.size)
        assert stored == at + 48 + len(record.born_host)
        assert bytes(log[body : body + body_length]) == record.body
        assert bytes(log[topic : topic + topic_length]).decode() == record.topic
        assert bytes(log[properties : at + size]) == record.properties
        position += record.size
    for number in range(len(records)):
        part = scan_records(log, 0, end, base, max_records=number)
        assert part.records == scan.records[:number]


@given(st.lists(st.tuples(INT32, st.binary(max_size=50), PROPERTY_BYTES)))
def test_batch(messages: list[tuple[int, bytes, bytes]]) -> None:
    body = encode_batch(messages)
    assert split_batch(body) == messages
    # Any buffer will do in place of bytes.
    assert encode_batch((flag, memoryview(text), properties) for flag, text, properties in messages) == body  # type: ignore[misc]


@given(PROPERTY_MAPS)
def test_properties(found: dict[str, str]) -> None:
    raw = encode_properties(found)
    assert decode_properties(raw) == decode_properties(raw.decode()) == found
    assert list(decode_properties(raw)) == list(found)
    assert encode_properties({**found, "nothing": None}) == encode_properties(
        {name: value for name, value in found.items() if name != "nothing"}
    )


@given(PROPERTY_BYTES, TOPICS)
@example(b"TAGS\x01a\x02TAGS\x01\x02", "t")
@example(b"TAGS\x01\x02TAGS\x01a\x02", "t")
@example(b"xTAGS\x01a\x02TAGS\x01b", "t")
@example(b"KEYS\x01 a  b \x02", "t")
@example(b"\x02\x02TAGS\x01\x01\x02", "t")
def test_looks_into_properties_agree(raw: bytes, topic: str) -> None:
    """Looking for one property gives what taking all apart gives."""
    found = decode_properties(raw)
    assert found == decode_properties(raw.decode("utf-8", "replace"))
    for name in (*found, "TAGS", "KEYS", "UNIQ_KEY", "none", ""):
        value = find_property(raw, name.encode())
        if "�" not in name:
            assert (None if value is None else value.decode("utf-8", "replace")) == found.get(name)
    assert tags_code(raw) == java_hash(found.get("TAGS", ""))
    expected = [found["UNIQ_KEY"]] if "UNIQ_KEY" in found else []
    expected += [key for key in found.get("KEYS", "").split(" ") if key]
    if "TAGS" in found:
        expected.append(f"T#{found['TAGS']}")
    assert index_keys(topic, raw) == [f"{topic}#{key}" for key in expected]
    assert index_hashes(topic, raw) == [index_hash(key) for key in index_keys(topic, raw)]


@given(st.text())
@example("polygenelubricants")
@example("\U0001f600\ud800")
def test_java_hash(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for i in range(0, len(units), 2):
        code = code * 31 + int.from_bytes(units[i : i + 2], "big")
    assert java_hash(text) % (1 << 32) == code % (1 << 32)
    assert -(1 << 31) <= java_hash(text) < 1 << 31
    assert 0 <= index_hash(text) < 1 << 31


@given(st.binary(max_size=5000), st.sampled_from([0, 0x100, 0x200, 0x300]), st.integers(1, 9))
def test_compression(body: bytes, kind: int, level: int) -> None:
    packed = deflate(body, kind, level)
    assert inflate(packed, kind | 1, len(body)) == body
    assert inflate(memoryview(packed), kind | 1, len(body) + 1) == body
    if body:
        try:
            inflate(packed, kind | 1, len(body) - 1)
        except InflatedTooLarge:
            return
        raise AssertionError("inflated to more than the limit")


@given(HOSTS, st.integers(0, (1 << 63) - 1))
def test_offset_message_id(host: bytes, physical_offset: int) -> None:
    text = ids.offset_message_id(host, physical_offset)
    assert len(text) == (32 if len(host) == 8 else 56)
    assert ids.parse_offset_message_id(text) == (host, physical_offset)


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_host(address: object, port: int) -> None:
    host = ids.pack_host(str(address), port)
    ip, found = ids.unpack_host(host)
    assert found == port
    assert ids.pack_host(ip, port) == host
    assert len(host) in (8, 20)
    assert ids.host_text(host).endswith(f":{port}")


@settings(max_examples=15)
@given(
    st.lists(st.integers(0, 5_000).map(lambda ms: 1_795_212_954_469 + ms), min_size=1, max_size=50),
    st.sampled_from([4, 8, 16, 20]),
    st.integers(65_500, 65_536),
)
def test_unique_ids_are_unique_whatever_the_clock_does(times: list[int], length: int, before: int) -> None:
    made = ids.UniqueIds(bytes(range(length)), 70_000, 1 << 40 | 7)
    seen = {made.new(times[0]) for _ in range(before)}
    assert len(seen) == before
    for now in times * 3:
        text = made.new(now)
        assert text not in seen
        seen.add(text)
        parsed = ids.parse_unique_id(text)
        assert (parsed.pid, parsed.loader_hash) == (70_000 & 0xFFFF, 7)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))
def test_month(moment: datetime) -> None:
    now_ms = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
    start, end = ids.month_of(now_ms)
    assert start <= now_ms < end
    assert 27 * 86_400_000 < end - start < 32 * 86_400_000
    assert datetime.fromtimestamp(start / 1000).day == datetime.fromtimestamp(end / 1000).day == 1


@given(INT64, INT32, INT64)
def test_unit(physical_offset: int, size: int, code: int) -> None:
    assert unpack_unit(pack_unit(physical_offset, size, code)) == (physical_offset, size, code)


@given(st.binary(max_size=100))
def test_crc(data: bytes) -> None:
    assert crc32(data) == crc32(memoryview(data)) == crc32(bytearray(data)) < 1 << 31
