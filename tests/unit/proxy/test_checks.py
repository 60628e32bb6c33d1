from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.options import Layer
from orbitmq.proxy.checks import MessageChecks, group_name, topic_name
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.wire import messaging_pb2 as pb

NOW = 1_700_000_000_000


def message(change: Callable[[pb.Message], None] = lambda one: None) -> pb.Message:
    one = pb.Message(topic=pb.Resource(name="orders"), body=b"x")
    one.system_properties.message_id = "01ABC"
    change(one)
    return one


def _many_properties(one: pb.Message) -> None:
    one.user_properties.update({f"p{number}": "v" for number in range(129)})


def _far_away(one: pb.Message) -> None:
    one.system_properties.delivery_timestamp.FromMilliseconds(NOW + 86_400_001)


REFUSED: list[tuple[Callable[[pb.Message], None], str]] = [
    (lambda one: setattr(one, "body", b""), "MESSAGE_BODY_EMPTY"),
    (lambda one: setattr(one, "body", bytes(4_194_305)), "MESSAGE_BODY_TOO_LARGE"),
    (lambda one: setattr(one.system_properties, "message_id", " "), "ILLEGAL_MESSAGE_ID"),
    (lambda one: one.user_properties.update({"UNIQ_KEY": "v"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    (lambda one: one.user_properties.update({"a\x01b": "v"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    (lambda one: one.user_properties.update({"a": "v\x02"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    (_many_properties, "MESSAGE_PROPERTIES_TOO_LARGE"),
    (lambda one: one.user_properties.update({"a": "v" * 16_384}), "MESSAGE_PROPERTIES_TOO_LARGE"),
    (lambda one: setattr(one.system_properties, "tag", "a|b"), "ILLEGAL_MESSAGE_TAG"),
    (lambda one: setattr(one.system_properties, "tag", ""), "ILLEGAL_MESSAGE_TAG"),
    (lambda one: one.system_properties.keys.append(" "), "ILLEGAL_MESSAGE_KEY"),
    (lambda one: setattr(one.system_properties, "message_group", "g" * 64), "ILLEGAL_MESSAGE_GROUP"),
    (_far_away, "ILLEGAL_DELIVERY_TIME"),
    (
        lambda one: setattr(one.system_properties.orphaned_transaction_recovery_duration, "seconds", 3601),
        "BAD_REQUEST",
    ),
]


@pytest.mark.parametrize(("change", "code"), REFUSED)
def test_what_no_proxy_takes_is_refused_with_its_code(
    change: Callable[[pb.Message], None], code: str
) -> None:
    with pytest.raises(ProxyRefused) as refused:
        MessageChecks(PROXY_TABLE.load([])).check(message(change), NOW)
    assert pb.Code.Name(refused.value.code) == code


def test_a_message_at_every_limit_is_taken() -> None:
    def change(one: pb.Message) -> None:
        one.body = bytes(4_194_304)
        one.system_properties.tag = "t"
        one.system_properties.message_group = "g" * 63
        one.system_properties.delivery_timestamp.FromMilliseconds(NOW + 86_400_000)

    MessageChecks(PROXY_TABLE.load([])).check(message(change), NOW)


def _in_seconds(seconds: int) -> Callable[[pb.Message], None]:
    return lambda one: one.system_properties.delivery_timestamp.FromMilliseconds(NOW + seconds * 1000)


@pytest.mark.parametrize(
    ("option", "takes", "refuses", "change"),
    [
        ("maxMessageSize", 3, 2, lambda one: setattr(one, "body", b"abc")),
        ("maxMessageSize", 0, 1, lambda one: setattr(one, "body", bytes(5 << 20))),
        ("enableMessageBodyEmptyCheck", "false", "true", lambda one: setattr(one, "body", b"")),
        ("maxUserPropertySize", 4, 3, lambda one: one.user_properties.update({"a": "bcd"})),
        ("userPropertyMaxNum", 2, 1, lambda one: one.user_properties.update({"a": "1", "b": "2"})),
        ("maxMessageGroupSize", 4, 3, lambda one: setattr(one.system_properties, "message_group", "abc")),
        ("maxLiteTopicSize", 3, 2, lambda one: setattr(one.system_properties, "lite_topic", "abc")),
        ("maxDelayTimeMills", 2000, 1999, _in_seconds(2)),
        ("maxDelayTimeMills", 0, 1, _in_seconds(10**6)),
        (
            "maxTransactionRecoverySecond", 5, 4,
            lambda one: setattr(one.system_properties.orphaned_transaction_recovery_duration, "seconds", 5),
        ),
    ],
)  # fmt: skip
def test_each_limit_is_an_option(
    option: str, takes: object, refuses: object, change: Callable[[pb.Message], None]
) -> None:
    def check(value: object) -> None:
        settings = PROXY_TABLE.load([Layer("the test", {option: str(value)})])
        MessageChecks(settings).check(message(change), NOW)

    check(takes)
    with pytest.raises(ProxyRefused):
        check(refuses)


@pytest.mark.parametrize("name", ["", "a b", "x" * 128, "TBW102", "rmq_sys_x"])
def test_topics_that_clients_may_not_name(name: str) -> None:
    with pytest.raises(ProxyRefused) as refused:
        topic_name(pb.Resource(name=name))
    assert refused.value.code == pb.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "a/b", "CID_RMQ_SYS_x"])
def test_groups_that_clients_may_not_name(name: str) -> None:
    with pytest.raises(ProxyRefused) as refused:
        group_name(pb.Resource(name=name))
    assert refused.value.code == pb.ILLEGAL_CONSUMER_GROUP
