from __future__ import annotations

import pytest

from orbitmq.client.core.errors import IllegalMessage
from orbitmq.client.core.handlers import Reply
from orbitmq.client.core.message import Message
from tests.kit.client_messages import received


def test_what_travels_with_a_message() -> None:
    message = Message(
        "T", "text", tags="TagA", keys=["a", "b"], properties={"k": "v"}, delay_level=3, sharding_key="s"
    )
    assert message.body == b"text"
    assert message.wire_properties("ID") == {
        "k": "v",
        "KEYS": "a b",
        "TAGS": "TagA",
        "DELAY": "3",
        "__SHARDINGKEY": "s",
        "UNIQ_KEY": "ID",
        "WAIT": "true",
    }


def test_one_key_may_be_a_plain_text() -> None:
    assert Message("T", b"x", keys="a").wire_properties("I")["KEYS"] == "a"
    assert Message("T", b"x", wait_store_ok=False).wire_properties("I") == {"UNIQ_KEY": "I", "WAIT": "false"}


@pytest.mark.parametrize("properties", [{"TAGS": "x"}, {"DELAY": "1"}, {"": "x"}, {"a": ""}])
def test_properties_that_would_do_something_else_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(IllegalMessage):
        Message("T", b"x", properties=properties).wire_properties("I")


def test_a_received_message_tells_what_it_is() -> None:
    message = received(7, b"abc", TAGS="t", KEYS="a b", UNIQ_KEY="U", own="1", __SHARDINGKEY="s")
    assert (message.topic, message.body, message.tags, message.keys) == ("T", b"abc", "t", ["a", "b"])
    assert (message.message_id, message.sharding_key, message.properties["own"]) == ("U", "s", "1")
    assert message.offset_message_id == "7F00000100002A9F00000000000002BC"
    assert (message.born_host, message.store_host) == ("127.0.0.1:10911", "127.0.0.1:10911")
    assert (message.queue_offset, message.physical_offset, message.size_bytes) == (7, 700, 3)
    assert "broker-a:0:7" in repr(message)


def test_without_a_unique_id_the_place_is_the_id() -> None:
    message = received(1)
    assert message.message_id == message.offset_message_id
    assert message.sharding_key is None


def test_a_message_that_names_its_time() -> None:
    assert Message("T", b"x", deliver_at_ms=1_700_000_000_123).wire_properties("ID") == {
        "TIMER_DELIVER_MS": "1700000000123", "UNIQ_KEY": "ID", "WAIT": "true",
    }  # fmt: skip
    assert Message("T", b"x", delay_ms=1500).wire_properties("ID")["TIMER_DELAY_MS"] == "1500"
    assert [
        message.is_delayed
        for message in (
            Message("T", b"x"),
            Message("T", b"x", delay_level=1),
            Message("T", b"x", delay_ms=0),
            Message("T", b"x", deliver_at_ms=5),
        )
    ] == [False, True, True, True]


@pytest.mark.parametrize(
    "times",
    [
        {"delay_level": 1, "delay_ms": 5},
        {"delay_ms": 5, "deliver_at_ms": 7},
        {"delay_level": 2, "deliver_at_ms": 7},
    ],
)
def test_a_message_has_one_time(times: dict[str, int]) -> None:
    with pytest.raises(IllegalMessage):
        Message("T", b"x", **times).wire_properties("ID")


@pytest.mark.parametrize("body", [b"ab", bytearray(b"ab"), memoryview(b"ab"), "ab"])
def test_what_may_be_a_body(body: bytes | bytearray | memoryview | str) -> None:
    assert Message("T", body).body == b"ab"
    assert Reply(body).body == b"ab"


@pytest.mark.parametrize("body", [5, None, ["a"], {"a": 1}])
def test_what_is_no_body(body: object) -> None:
    """A number stood for so many zero bytes before."""
    with pytest.raises(TypeError):
        Message("T", body)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Reply(body)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", 5, "a" * 256])
def test_names_of_lite_topics_are_those_that_brokers_take(name: str) -> None:
    with pytest.raises(IllegalMessage, match="lite_topic"):
        Message("T", b"x", lite_topic=name)


def test_a_message_of_a_lite_topic_goes_alone_and_is_in_order_by_itself() -> None:
    plain = Message("T", b"x", tags="t", keys="k", properties={"own": "1"}, flag=3, wait_store_ok=False)
    lite = plain.of_lite_topic("session-42_a")
    assert lite.wire_properties("I") == {**plain.wire_properties("I"), "__LITE_TOPIC": "session-42_a"}
    assert (lite.flag, lite.goes_alone, plain.goes_alone) == (3, True, False)
    assert Message("T", b"x", delay_ms=1).goes_alone
    with pytest.raises(IllegalMessage, match="lite_topic or sharding_key"):
        Message("T", b"x", lite_topic="a", sharding_key="s")
