"""Half messages, what commits publish, and op records, beside those that Apache's broker wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.broker.transaction.records import (
    Half,
    committed,
    copied,
    given_up,
    is_delayed,
    op_offsets,
    op_records,
    read_half,
    reroute_to_half,
)
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.store import PendingMessage

VECTORS = Path(__file__).parents[3] / "wire" / "vectors" / "delivered_records.json"
RECORDS = [bytes.fromhex(row["record_hex"]) for row in json.loads(VECTORS.read_text())["records"]]
DECODED = [decode_record(record) for record in RECORDS]
HALF = next(n for n, record in enumerate(DECODED) if record.topic == "RMQ_SYS_TRANS_HALF_TOPIC")
COMMITTED = next(n for n, record in enumerate(DECODED) if record.sys_flag & 0xC == 8)
COPY = next(n for n, record in enumerate(DECODED) if b"TRANSACTION_CHECK_TIMES" in record.properties)
OP = next(n for n, record in enumerate(DECODED) if record.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC")


def apaches(number: int) -> Half:
    half = read_half(RECORDS[number])
    assert half is not None
    return half


def stored_at(place: StoredMessage, message: PendingMessage) -> bytes:
    """The record of a message, stored where and when another one was."""
    out = bytearray(1 << 12)
    size = encode_record(
        out,
        0,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=place.queue_offset,
        physical_offset=place.physical_offset,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=place.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        body=message.body,
        topic=message.topic.encode(),
        properties=message.properties,
    )
    return bytes(out[:size])


def test_what_a_commit_publishes_is_to_the_byte_what_apache_publishes() -> None:
    message = committed(apaches(HALF), DECODED[HALF].store_host)
    assert stored_at(DECODED[COMMITTED], message) == RECORDS[COMMITTED]


def test_a_copy_is_apaches_and_says_of_what() -> None:
    message = copied(apaches(HALF), 1, DECODED[HALF].store_host)
    properties = decode_properties(message.properties)
    assert properties.pop("TRAN_PREPARED_QUEUE_OFFSET") == "0"
    theirs = DECODED[COPY]
    assert properties == theirs.property_map()
    assert (message.topic, message.queue_id, message.sys_flag) == (theirs.topic, 0, theirs.sys_flag)
    assert (message.body, message.born_timestamp, message.born_host) == (
        theirs.body,
        theirs.born_timestamp,
        theirs.born_host,
    )


def test_what_is_given_up_keeps_all_its_properties() -> None:
    message = given_up(apaches(COPY), DECODED[COPY].store_host)
    assert (message.topic, message.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    assert decode_properties(message.properties) == DECODED[COPY].property_map()


def test_an_op_record_is_apaches_to_the_byte() -> None:
    theirs = DECODED[OP]
    ((message, named),) = op_records(op_offsets(theirs.body), 4096, theirs.store_host, theirs.born_timestamp)
    assert named == op_offsets(theirs.body)
    assert stored_at(theirs, message) == RECORDS[OP]


@pytest.mark.parametrize(
    ("limit", "bodies"),
    [
        (4096, [b"9,10,11,"]),
        (5, [b"9,10,", b"11,"]),
        (1, [b"9,", b"10,", b"11,"]),
    ],
)
def test_op_records_are_as_long_as_they_may_be(limit: int, bodies: list[bytes]) -> None:
    made = list(op_records([9, 10, 11], limit, bytes(8), 0))
    assert [message.body for message, _ in made] == bodies
    assert [offset for _, named in made for offset in named] == [9, 10, 11]


@pytest.mark.parametrize(
    ("body", "offsets"), [(b"", []), (b"1,2,", [1, 2]), (b"3", [3]), (b"x,-4,5,,\xff,", [5])]
)
def test_what_is_no_number_in_an_op_record_is_nobodys(body: bytes, offsets: list[int]) -> None:
    assert op_offsets(body) == offsets


def test_who_sends_no_group_property_is_known_by_the_request() -> None:
    properties = {"UNIQ_KEY": "U"}
    reroute_to_half(properties, "T", 3, "from the header")
    assert properties["PGROUP"] == "from the header"
    properties = {"UNIQ_KEY": "U", "PGROUP": "its own"}
    reroute_to_half(properties, "T", 3, "from the header")
    assert properties["PGROUP"] == "its own"


@pytest.mark.parametrize(
    ("properties", "delayed"),
    [({}, False), ({"DELAY": "0"}, False), ({"DELAY": "x"}, False), ({"DELAY": "2"}, True)],
)
def test_what_counts_as_delayed(properties: dict[str, str], delayed: bool) -> None:
    assert is_delayed(properties) is delayed


def test_what_is_no_half_message_is_none() -> None:
    assert read_half(None) is None
    assert read_half(b"nonsense") is None
    assert read_half(RECORDS[COMMITTED]) is None
