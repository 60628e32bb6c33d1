import json
from dataclasses import replace
from pathlib import Path

import pytest

from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.retry.rules import SendBack, is_dead, sent_back
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties, encode_properties

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
NOW = 1_795_000_000_000
VECTORS = Path(__file__).parents[3] / "wire" / "vectors" / "delivered_records.json"


def record(reconsume_times: int = 0, **properties: str) -> StoredMessage:
    return StoredMessage(
        topic="T", body=b"body", properties=encode_properties(properties), queue_id=1, queue_offset=5,
        physical_offset=0x1234, flag=3, sys_flag=1, born_timestamp=NOW - 9, born_host=HOST,
        store_timestamp=NOW - 5, store_host=HOST, reconsume_times=reconsume_times,
        prepared_transaction_offset=0, body_crc=0, size=100,
    )  # fmt: skip


def back(delay_level: int = 0, most: int = 16) -> SendBack:
    return SendBack("G", delay_level, most, retry_queue_id=0)


def test_a_message_comes_back_later_each_time() -> None:
    for times, level in ((0, 3), (1, 4), (14, 17), (15, 18)):
        message = sent_back(record(times), back(), DelayLevels(), HOST, NOW)
        assert message.topic == "SCHEDULE_TOPIC_XXXX"
        assert message.queue_id == level - 1
        assert message.reconsume_times == times + 1
        assert message.tags_code == DelayLevels().due(level, NOW)


def test_the_consumer_may_choose_the_delay() -> None:
    assert sent_back(record(5), back(delay_level=1), DelayLevels(), HOST, NOW).queue_id == 0


def test_the_message_says_where_it_came_from() -> None:
    properties = decode_properties(sent_back(record(KEYS="k"), back(1), DelayLevels(), HOST, NOW).properties)
    assert properties == {
        "KEYS": "k",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000001234",
        "WAIT": "false",
        "DELAY": "1",
        "REAL_TOPIC": "%RETRY%G",
        "REAL_QID": "0",
    }


def test_where_it_came_from_first_is_kept() -> None:
    again = replace(record(1, RETRY_TOPIC="First", ORIGIN_MESSAGE_ID="ID"), topic="%RETRY%G")
    properties = decode_properties(sent_back(again, back(1), DelayLevels(), HOST, NOW).properties)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("First", "ID")


def test_a_popped_message_says_where_it_was_popped_from() -> None:
    popped = replace(record(1), topic="%RETRY%G_T")
    properties = decode_properties(sent_back(popped, back(1), DelayLevels(), HOST, NOW).properties)
    assert properties["RETRY_TOPIC"] == "T"


@pytest.mark.parametrize("level", [1, -1])
def test_what_a_sender_says_about_the_origin_counts_for_nothing(level: int) -> None:
    forged = record(RETRY_TOPIC="salaries", ORIGIN_MESSAGE_ID="ID")
    properties = decode_properties(sent_back(forged, back(level), DelayLevels(), HOST, NOW).properties)
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F0000000000001234"


def test_a_message_without_room_for_a_retry_is_a_dead_letter() -> None:
    full = record(K="x" * 32_760)
    message = sent_back(full, back(1), DelayLevels(), HOST, NOW)
    assert (message.topic, message.properties) == ("%DLQ%G", full.properties)
    # Nor does it say what its sender wrote: a redrive would believe it.
    forged = replace(
        record(K="x" * 32_700, RETRY_TOPIC="salaries", DLQ_ORIGIN_TOPIC="salaries"), topic="T" * 100
    )
    assert set(decode_properties(sent_back(forged, back(1), DelayLevels(), HOST, NOW).properties)) == {"K"}
    # One that lacks a few bytes goes without what the broker can make again.
    tight = record(K="x" * 32_600, CLUSTER="DefaultCluster", MSG_REGION="DefaultRegion", TRACE_ON="true")
    message = sent_back(tight, back(1), DelayLevels(), HOST, NOW)
    assert message.topic == "SCHEDULE_TOPIC_XXXX"
    properties = decode_properties(message.properties)
    assert (properties["RETRY_TOPIC"], properties["REAL_TOPIC"], properties["DELAY"]) == (
        "T",
        "%RETRY%G",
        "1",
    )
    assert properties["K"] == "x" * 32_600


def test_a_message_delivered_often_enough_is_dead() -> None:
    assert not is_dead(record(1), back(most=2))
    assert is_dead(record(2), back(most=2))
    assert is_dead(record(0), back(delay_level=-1))
    message = sent_back(record(2), back(most=2), DelayLevels(), HOST, NOW)
    assert (message.topic, message.queue_id, message.reconsume_times) == ("%DLQ%G", 0, 3)
    assert message.tags_code is None
    assert decode_properties(message.properties)["DELAY"] == "0"


def test_a_message_is_sent_back_as_apache_does() -> None:
    records = {}
    for item in json.loads(VECTORS.read_text())["records"]:
        found = decode_record(bytes.fromhex(item["record_hex"]))
        records[found.topic, found.reconsume_times] = found
    came_in = records["DTest", 0]
    for item in json.loads(VECTORS.read_text())["records"]:
        if item["topic"] == "DTest" and "DELAY\x01" in item["properties"]:
            came_in = decode_record(bytes.fromhex(item["record_hex"]))
    want = records["SCHEDULE_TOPIC_XXXX", 1]
    message = sent_back(came_in, SendBack("GX", 1, 16, 0), DelayLevels(), want.store_host, NOW)
    assert decode_properties(message.properties) == want.property_map()
    for name in (
        "topic", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host",
        "reconsume_times", "prepared_transaction_offset", "body",
    ):  # fmt: skip
        assert getattr(message, name) == getattr(want, name), name
