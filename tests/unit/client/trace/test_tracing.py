"""Records of a trace travel in few messages, which are found by the ids and keys of what they are about."""

from __future__ import annotations

from orbitmq.client.trace import tracing
from orbitmq.client.trace.records import END, TraceRecord
from orbitmq.client.trace.tracing import in_messages


def record(number: int, topic: str = "T", length: int = 10) -> TraceRecord:
    return TraceRecord(topic, (f"M{number}", "order-17"), f"{number}".rjust(length - 1) + END)


def test_records_about_one_topic_are_one_message() -> None:
    [(message, count)] = in_messages("TRACE", [record(1), record(2)])
    assert count == 2
    assert message.topic == "TRACE"
    assert message.body == (record(1).text + record(2).text).encode()
    assert list(message.keys) == ["M1", "order-17", "M2"], "each once"


def test_records_about_other_topics_are_messages_of_their_own() -> None:
    made = in_messages("TRACE", [record(1, "A"), record(2, "B"), record(3, "A")])
    assert [(next(iter(message.keys)), count) for message, count in made] == [("M1", 2), ("M2", 1)]


def test_a_message_is_no_longer_than_its_limit() -> None:
    third = tracing.MAX_BODY_BYTES // 3
    made = in_messages("TRACE", [record(number, length=third) for number in range(7)])
    assert [count for _, count in made] == [3, 3, 1]
    assert all(len(message.body) <= tracing.MAX_BODY_BYTES for message, _ in made)


def test_a_record_that_is_longer_goes_alone() -> None:
    long = record(2, length=tracing.MAX_BODY_BYTES + 1)
    assert [count for _, count in in_messages("TRACE", [record(1), long, record(3)])] == [1, 1, 1]


def test_without_records_there_is_no_message() -> None:
    assert in_messages("TRACE", []) == []


def test_many_long_keys_are_split_so_that_each_message_can_be_stored() -> None:
    records = [
        TraceRecord("T", (f"M{number}", f"{number}".rjust(400, "k")), f"{number}" + END)
        for number in range(100)
    ]
    made = in_messages("TRACE", records)
    assert sum(count for _, count in made) == 100
    assert "".join(message.body.decode() for message, _ in made) == "".join(one.text for one in records)
    for message, _ in made:
        assert len(" ".join(message.keys)) <= tracing.MAX_KEYS_BYTES
    assert {key for message, _ in made for key in message.keys} == {
        key for one in records for key in one.keys
    }


def test_keys_for_which_one_message_has_no_room_are_in_its_text_alone() -> None:
    keys = [f"{number}".rjust(999, "k") for number in range(32)]
    [(message, _)] = in_messages("TRACE", [TraceRecord("T", ("M", *keys), " ".join(keys) + END)])
    assert list(message.keys) == ["M", *keys[:23]]
    assert keys[31] in message.body.decode()
