"""Messages to send behave alike, compiled and interpreted."""

from __future__ import annotations

import copy
import inspect
import pickle
import types

import pytest

from orbitmq.client.core.errors import IllegalMessage
from orbitmq.client.core.outgoing_cy import Message, encoded_properties
from orbitmq.protocol.records.properties import encode_properties

EVERYTHING = {
    "tags": "t",
    "keys": ("k", "l"),
    "properties": {"a": "b"},
    "delay_level": 3,
    "sharding_key": "s",
    "flag": 7,
    "wait_store_ok": False,
}


def test_help_shows_the_arguments_of_a_message() -> None:
    arguments = inspect.signature(Message).parameters
    assert list(arguments)[:2] == ["topic", "body"]
    message = Message("T", b"x")
    for name, argument in list(arguments.items())[2:]:
        assert argument.kind is inspect.Parameter.KEYWORD_ONLY
        assert getattr(message, name) == (argument.default if name != "properties" else {})
        Message("T", b"x", **{name: argument.default})


def test_help_leaves_out_no_argument() -> None:
    if inspect.isfunction(Message.__init__):  # an extension type does not tell its own
        own = inspect.signature(Message.__init__).parameters.values()
        assert list(own)[1:] == list(inspect.signature(Message).parameters.values())


@pytest.mark.parametrize("copied", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_all_fields_and_may_be_changed_by_itself(copied: object) -> None:
    message = Message("T", b"x", **EVERYTHING)  # type: ignore[arg-type]
    other = copied(message)  # type: ignore[operator]
    assert {name: getattr(other, name) for name in EVERYTHING} == EVERYTHING
    other.properties = {"c": "d"}
    other.tags = None
    assert (message.properties, message.tags) == ({"a": "b"}, "t")


def test_a_property_may_be_added_to_a_message_without_any() -> None:
    message = Message("T", b"x")
    message.properties["a"] = "b"  # type: ignore[index]
    assert encoded_properties(message, "U").startswith(b"a\x01b\x02")


@pytest.mark.parametrize(
    "given",
    [
        {"properties": {"a": "b", "\u4e2d": "c d"}, "keys": ("k", "l"), "tags": "t", "sharding_key": "s"},
        {"properties": {"a": "line\nanother"}, "wait_store_ok": False},
        {"properties": {"a": "\x01"}, "keys": ("k",)},
        {"properties": types.MappingProxyType({"a": "b"})},
        {"properties": {"a": "b"}, "delay_ms": 5},
        {"tags": "t"},
    ],
)
def test_plain_messages_are_encoded_as_all_others(given: dict[str, object]) -> None:
    message = Message("T", b"x", **given)  # type: ignore[arg-type]
    assert encoded_properties(message, "U") == encode_properties(message.wire_properties("U"))


@pytest.mark.parametrize(
    "properties",
    [{"TAGS": "t"}, {"a": ""}, {"": "a"}, {"a": 1}, {1: "a"}, {"a": "b\x02"}, {"a\x01": "b"}, ["a"]],
)
def test_properties_that_cannot_travel_are_refused(properties: object) -> None:
    with pytest.raises(IllegalMessage):
        Message("T", b"x", properties=properties)  # type: ignore[arg-type]


def test_a_message_may_be_derived_from() -> None:
    class Order(Message):
        def __init__(self, number: int) -> None:
            super().__init__("orders", str(number), keys=str(number))

    assert (Order(17).topic, Order(17).body, Order(17).keys) == ("orders", b"17", ("17",))


def test_a_field_that_a_message_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError):
        Message("T", b"x").tag = "t"  # type: ignore[attr-defined]


def test_a_change_is_checked_as_the_arguments_are() -> None:
    message = Message("T", b"x")
    message.keys = ("a\x02b",)
    with pytest.raises(IllegalMessage):
        message.check()
    message.keys, message.flag = (), 2**31
    with pytest.raises(IllegalMessage):
        message.check()


@pytest.mark.parametrize("keys", ["order 17", ["a", "b c"], " ", ["x "]])
def test_a_key_with_a_blank_is_refused_and_never_split(keys: str | list[str]) -> None:
    with pytest.raises(IllegalMessage, match=r"a key has no blanks, .* give keys=\[\.\.\.\]"):
        Message("orders", b"x", keys=keys).check()
    Message("orders", b"x", keys=["order", "17", "a\u00a0b"]).check()
