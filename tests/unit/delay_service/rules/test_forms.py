import pytest

from orbitmq.delay_service.errors import NoForm
from orbitmq.delay_service.rules.forms import as_kafka, as_rocketmq, split_headers, split_properties
from orbitmq.delay_service.store.records import Content


def test_control_properties_and_those_of_one_send_do_not_travel():
    control, content = split_properties(
        {"delay.at": "5", "delay.due": "9", "KEYS": "a b", "TAGS": "x", "UNIQ_KEY": "u", "WAIT": "true",
         "__SHARDINGKEY": "s", "colour": "blue", "Delay": "mine"}, b"\xff", 7,
    )  # fmt: skip
    assert control == {"delay.at": "5", "delay.due": "9"}
    assert content.properties == {
        "KEYS": "a b", "TAGS": "x", "__SHARDINGKEY": "s", "colour": "blue", "Delay": "mine"
    }  # fmt: skip
    assert (content.body, content.flag) == (b"\xff", 7)


def test_headers_are_read_as_they_are():
    control, content, problem = split_headers(
        [("delay.at", b"5"), ("x", b"\xff"), ("x", None)], b"v", b"\x00k"
    )
    assert (control, problem) == ({"delay.at": "5"}, "")
    assert (content.headers, content.key, content.body) == ([("x", b"\xff"), ("x", None)], b"\x00k", b"v")


@pytest.mark.parametrize(
    "headers", [[("delay.at", None)], [("delay.at", b"1"), ("delay.at", b"2")], [("delay.at", b"\xff")]]
)
def test_a_flaw_of_a_control_header_is_told(headers):
    assert split_headers(headers, b"v", None)[2].startswith("delay.at: ")


def test_a_message_of_rocketmq_in_kafka_and_back():
    content = Content(b"\x00\xff", {"KEYS": "k 1", "TAGS": "red", "__SHARDINGKEY": "s", "x": "Ä"}, 7)
    body, key, headers, ordering = as_kafka(content)
    assert (body, key, ordering) == (b"\x00\xff", b"k 1", "s")
    assert dict(headers)["x"] == "Ä".encode()
    assert as_rocketmq(Content(body, None, 0, headers, key)) == (b"\x00\xff", content.properties, 7)


def test_binary_keys_and_headers_have_an_encoding():
    _, properties, _ = as_rocketmq(Content(b"v", None, 0, [("bin", b"\xff\x00")], b"\xffkey"))
    assert properties == {"bin.base64": "/wA=", "kafka.key.base64": "/2tleQ=="}
    assert as_kafka(Content(b"v", properties))[1] == b"\xffkey"


@pytest.mark.parametrize(
    "content",
    [
        Content(None, None, 0, []),
        Content(b"", None, 0, []),
        Content(b"v", None, 0, [("a", b"1"), ("a", b"2")]),
        Content(b"v", None, 0, [("a", None)]),
        Content(b"v", None, 0, [("a", b"")]),
        Content(b"v", None, 0, [("a\x01", b"1")]),
        Content(b"v", None, 0, [("UNIQ_KEY", b"1")]),
    ],
)
def test_some_records_have_no_form_in_rocketmq(content):
    with pytest.raises(NoForm):
        as_rocketmq(content)
