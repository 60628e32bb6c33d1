from __future__ import annotations

import mmap

import pytest

from orbitmq.protocol.records.checksums_cy import crc32
from orbitmq.protocol.records.encoding_cy import encode_record, record_size
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.message import FIXED_BYTES, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, read_header
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import Stop

HOST = pack_host("127.0.0.1", 10911)
PROPERTIES = b"TAGS\x01a\x02KEYS\x01k l\x02"
V6 = pack_host("::1", 10911)


def write(
    out: object,
    position: int = 0,
    *,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_host: bytes = HOST,
    body: object = b"body",
    topic: bytes = b"T",
    properties: bytes = PROPERTIES,
    append_property_crc: bool = False,
) -> int:
    return encode_record(
        out,
        position,
        1,
        2,
        3,
        physical_offset,
        sys_flag,
        4,
        born_host,
        5,
        HOST,
        6,
        7,
        body,
        topic,
        properties,
        None,
        append_property_crc,
    )


def test_fields_of_a_decoded_record() -> None:
    out = bytearray(200)
    size = write(out)
    assert decode_record(out) == StoredMessage(
        topic="T",
        body=b"body",
        properties=PROPERTIES,
        queue_id=1,
        queue_offset=3,
        physical_offset=0,
        flag=2,
        sys_flag=0,
        born_timestamp=4,
        born_host=HOST,
        store_timestamp=5,
        store_host=HOST,
        reconsume_times=6,
        prepared_transaction_offset=7,
        body_crc=crc32(b"body"),
        size=size,
    )


def test_words_about_a_message() -> None:
    out = bytearray(200)
    write(out)
    message = decode_record(out)
    assert (message.tags, message.keys, message.unique_id) == ("a", ["k", "l"], None)
    assert message.property_map() == {"TAGS": "a", "KEYS": "k l"}
    write(out, properties=b"")
    bare = decode_record(out)
    assert (bare.tags, bare.keys, bare.unique_id) == (None, [], None)


def test_plain_body_in_place_of_a_compressed_one() -> None:
    out = bytearray(200)
    write(out, sys_flag=0x1 | 0x200 | 0x8)
    message = decode_record(out).with_body(b"plain")
    assert (message.body, message.sys_flag) == (b"plain", 0x8)


def test_hosts_decide_the_v6_bits() -> None:
    out = bytearray(300)
    write(out, sys_flag=0x30)
    assert decode_record(out).sys_flag == 0
    size = write(out, born_host=V6)
    assert decode_record(out).sys_flag == 0x10
    assert size == record_size(4, 1, len(PROPERTIES), 20, 8)
    assert record_size(0, 0, 0) == FIXED_BYTES


@pytest.mark.parametrize(
    "make", [bytearray, lambda size: memoryview(bytearray(size)), lambda size: mmap.mmap(-1, size)]
)
def test_writes_into_any_buffer(make: object) -> None:
    out = make(400)  # type: ignore[operator]
    end = write(out)
    end += write(out, end, physical_offset=end)
    scan = scan_records(out, 0, end, 0)
    assert scan.stop is Stop.END
    assert len(scan.records) == 2


def test_long_topics_make_version_2() -> None:
    for length, magic in ((127, 0xDAA320A7), (128, 0xDAA320AB), (255, 0xDAA320AB)):
        out = bytearray(600)
        size = write(out, topic=b"t" * length)
        assert read_header(out)[1] & 0xFFFFFFFF == magic
        assert decode_record(out).topic == "t" * length
        assert size == record_size(4, length, len(PROPERTIES))


def test_where_scans_end() -> None:
    out = bytearray(400)
    size = write(out)
    assert scan_records(out, 0, 400, 0)[1:] == (size, Stop.EMPTY, "")
    assert scan_records(out, 0, size, 0)[1:] == (size, Stop.END, "")
    assert scan_records(out, 0, 400, 0, max_records=0)[1:] == (0, Stop.END, "")
    encode_blank(out, size, 400 - size)
    assert scan_records(out, 0, 400, 0)[1:] == (size, Stop.BLANK, "")
    assert read_header(out, size)[:2] == (400 - size, -875286124)
    scan = scan_records(out, 0, size - 1, 0)
    assert scan.stop is Stop.BAD
    assert scan.position == 0
    # The end of the range may lie behind the buffer.
    assert scan_records(out[:size], 0, 1 << 40, 0).stop is Stop.END


def test_a_record_has_to_stand_where_it_says() -> None:
    out = bytearray(400)
    size = write(out, physical_offset=1000)
    assert scan_records(out, 0, size, 1000).stop is Stop.END
    assert scan_records(out, 0, size, 999).reason == "a record for physical offset 1000 is at 999"


def test_checksum_of_the_body() -> None:
    out = bytearray(200)
    size = write(out)
    out[88] ^= 0x40
    with pytest.raises(BadRecord, match=r"checksum \(record at byte 0\)"):
        decode_record(out)
    assert decode_record(out, 0, False).body != b"body"
    assert scan_records(out, 0, size, 0).stop is Stop.BAD
    assert scan_records(out, 0, size, 0, False).stop is Stop.END


def test_checksum_of_everything() -> None:
    out = bytearray(300)
    size = write(out, append_property_crc=True)
    properties = decode_record(out, check_property_crc=True).properties
    assert properties.startswith(b"TAGS\x01a\x02KEYS\x01k l\x02__CRC32#\x01")
    assert len(properties) == len(PROPERTIES) + 20
    assert scan_records(out, 0, size, 0, True, True).stop is Stop.END
    out[16] ^= 1  # the flag, which nothing else covers
    decode_record(out)
    with pytest.raises(BadRecord, match="the record does not have"):
        decode_record(out, check_property_crc=True)
    assert scan_records(out, 0, size, 0, True, True).reason == "the record does not have its checksum"


def test_old_checksum_of_everything_gives_way() -> None:
    """A message that is stored again brings the property of its first record along."""
    out = bytearray(300)
    write(out, append_property_crc=True)
    first = decode_record(out).properties
    write(out, properties=first, append_property_crc=True)
    again = decode_record(out, check_property_crc=True).properties
    assert len(again) == len(first)
    assert decode_properties(again)["TAGS"] == "a"


def test_blank_needs_room() -> None:
    with pytest.raises(ValueError, match="8 bytes"):
        encode_blank(bytearray(20), 0, 7)


def test_topic_has_to_be_text() -> None:
    out = bytearray(200)
    size = write(out, topic=b"\xff\xfe")
    with pytest.raises(BadRecord, match="UTF-8"):
        decode_record(out)
    assert scan_records(out, 0, size, 0).reason == "the topic is not UTF-8"
