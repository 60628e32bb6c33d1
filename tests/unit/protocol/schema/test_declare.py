from __future__ import annotations

from dataclasses import dataclass

import pytest

from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.errors import (
    MalformedBody,
    MalformedField,
    MalformedJson,
    MalformedReply,
    MissingField,
    Refused,
)
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import (
    REQUESTS,
    Blob,
    Bytes,
    Long,
    Reply,
    Request,
    Void,
    request,
    wire,
)
from orbitmq.protocol.schema.json_body import JsonBody


@pytest.fixture(autouse=True)
def _keep_registry():
    before = dict(REQUESTS)
    yield
    REQUESTS.clear()
    REQUESTS.update(before)


class Answer(Reply):
    """With one of each."""

    next_offset: Long
    is_last: bool
    note: str | None = None
    body: Bytes | None = None


class Ask(Request[Answer]):
    """With one of each; not registered."""

    topic_name: str
    queue_id: int
    offset: Long = wire("o")
    is_fresh: bool
    limit: int = -1
    note: str | None = wire("n", default=None)
    maybe: bool | None = None
    body: KVTable | None = None


@dataclass(slots=True)
class Point(JsonBody):
    """A body."""

    x: int = 0


def _ask(**changed: str) -> Command:
    ext = {"topicName": "T", "queueId": "3", "o": str(1 << 40), "isFresh": "true"} | changed
    return Command(1, ext={name: value for name, value in ext.items() if value is not None})


def test_wire_names_and_types() -> None:
    ask = Ask("T", 3, 1 << 40, True, note="x", body=KVTable({"a": "b"}))
    command = ask.to_command(opaque=9, oneway=True)
    assert (command.opaque, command.flag) == (9, 2)
    assert command.ext == {
        "topicName": "T",
        "queueId": "3",
        "o": str(1 << 40),
        "isFresh": "true",
        "limit": "-1",
        "n": "x",
    }
    assert command.body == b'{"table":{"a":"b"}}'
    assert Ask.from_command(command) == ask


def test_absent_fields_take_their_defaults() -> None:
    ask = Ask.from_command(_ask())
    assert (ask.limit, ask.note, ask.maybe, ask.body) == (-1, None, None, None)


@pytest.mark.parametrize("text", ["True", "TRUE", "true"])
def test_true_in_any_case(text: str) -> None:
    assert Ask.from_command(_ask(isFresh=text)).is_fresh is True


@pytest.mark.parametrize("text", ["false", "yes", "1", ""])
def test_everything_else_is_false(text: str) -> None:
    assert Ask.from_command(_ask(isFresh=text, maybe=text)).maybe is False


@pytest.mark.parametrize("name", ["topicName", "queueId", "o", "isFresh"])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(MissingField) as caught:
        Ask.from_command(_ask(**{name: None}))
    assert caught.value.name == name
    assert caught.value.code == 1
    assert caught.value.remark == f"the custom field <{name}> is null"


def test_no_fields_at_all() -> None:
    with pytest.raises(MissingField):
        Ask.from_command(Command(1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queueId", "three"),
        ("queueId", ""),
        ("queueId", "1.0"),
        ("queueId", str(1 << 31)),
        ("queueId", str(-(1 << 31) - 1)),
        ("queueId", "9" * 5000),
        ("o", str(1 << 63)),
        ("limit", "x"),
        ("limit", str(1 << 31)),
    ],
)
def test_a_malformed_number_is_named(name: str, text: str) -> None:
    with pytest.raises(MalformedField) as caught:
        Ask.from_command(_ask(**{name: text}))
    assert caught.value.name == name
    assert caught.value.code == 1
    assert len(caught.value.remark) < 200


@pytest.mark.parametrize("number", [-(1 << 31), (1 << 31) - 1])
def test_numbers_up_to_their_limits(number: int) -> None:
    assert Ask.from_command(_ask(queueId=str(number))).queue_id == number


def test_a_body_that_is_no_json() -> None:
    command = _ask()
    command.body = b"{broken"
    with pytest.raises(MalformedBody, match="the request body cannot be read"):
        Ask.from_command(command)


def test_a_reply_whose_body_is_no_json() -> None:
    class Table(Reply):
        """With a body."""

        body: KVTable

    with pytest.raises(MalformedJson):
        Table.from_command(Command(0, body=b"{broken"))


def test_a_required_body() -> None:
    class Carry(Request[Void]):
        """With a body."""

        body: KVTable

    with pytest.raises(MissingField) as caught:
        Carry.from_command(Command(1))
    assert caught.value.name == "body"
    assert Carry.from_command(Command(1, body=b"{}")).body == KVTable()


def test_a_body_of_either_kind() -> None:
    class Send(Request[Void]):
        """Bytes or an object."""

        body: KVTable | Bytes | None = None

    assert Send(KVTable()).to_command().body == b'{"table":{}}'
    assert Send(b"raw").to_command().body == b"raw"
    assert Send.from_command(Command(1, body=b"{}")).body == b"{}"


def test_replies() -> None:
    answer = Answer(5, False, note="n", body=b"xyz", code=19, remark="r", extra={"MSG_REGION": "here"})
    command = answer.to_command(7)
    assert (command.code, command.opaque, command.flag, command.remark) == (19, 7, 1, "r")
    assert command.ext == {"nextOffset": "5", "isLast": "false", "note": "n", "MSG_REGION": "here"}
    again = Answer.from_command(command)
    assert (again.next_offset, again.is_last, again.note, again.code) == (5, False, "n", 19)
    assert again.extra is not None
    assert again.extra["MSG_REGION"] == "here"


def test_a_reply_without_a_promised_field() -> None:
    with pytest.raises(MalformedReply, match="nextOffset"):
        Answer.from_command(Command(0, ext={"isLast": "true"}))


def test_void_and_blob() -> None:
    assert Void().to_command(3) == Command(0, 3, 1)
    assert Void(extra={"a": "b"}).to_command().ext == {"a": "b"}
    assert Blob(b"x").to_command().body == b"x"
    assert Blob.from_command(Command(0)).body is None


def test_classes_have_slots_and_no_dict() -> None:
    ask = Ask("T", 1, 2, True)
    assert not hasattr(ask, "__dict__")
    with pytest.raises(AttributeError):
        ask.queue = 1  # type: ignore[attr-defined]


def test_inherited_fields_come_first() -> None:
    class Base(Request[Void]):
        """Shared."""

        topic: str

    class More(Base):
        """And more."""

        key: str

    assert More("t", "k").to_command().ext == {"topic": "t", "key": "k"}


def test_registration() -> None:
    @request(99_001, to="broker namesrv")
    class LookAtV2(Request[Answer]):
        """Registered."""

    assert REQUESTS[99_001] is LookAtV2
    assert (LookAtV2.CODE, LookAtV2.NAME) == (99_001, "LOOK_AT_V2")
    assert {"broker", "namesrv"} == LookAtV2.SERVED_BY
    assert LookAtV2.REPLY is Answer
    assert LookAtV2().to_command().code == 99_001
    with pytest.raises(TypeError, match="99001 is LookAtV2"):
        request(99_001)(LookAtV2)


def test_a_request_has_to_say_its_reply() -> None:
    class Mute(Request):  # type: ignore[type-arg]
        """Says nothing."""

    with pytest.raises(TypeError, match="Mute"):
        request(99_002)(Mute)


def test_a_type_that_has_no_place_in_a_header() -> None:
    class Wrong(Request[Void]):
        """Lists cannot be header fields."""

        numbers: list[int]

    with pytest.raises(TypeError, match="numbers"):
        Wrong([1])


def test_a_class_whose_base_was_used_first_has_codecs_of_its_own() -> None:
    class Base(Request[Void]):
        """Shared."""

        topic: str

    assert Base.from_command(Base("t").to_command()) == Base("t")

    class More(Base):
        """And more."""

        key: str

    assert More.from_command(More("t", "k").to_command()) == More("t", "k")
    assert Base("t").to_command().ext == {"topic": "t"}


def test_equality_and_printing() -> None:
    assert Ask("T", 1, 2, True) == Ask("T", 1, 2, True)
    assert Ask("T", 1, 2, True) != Ask("T", 1, 3, True)
    assert Void() != Answer(1, True)
    text = repr(Answer(1, True, body=b"12345"))
    assert text == "Answer(next_offset=1, is_last=True, body=<5 bytes>)"


def test_refused_is_an_answer() -> None:
    command = Command.refusal(Refused(17, "no such topic", {"a": "b"}), 4)
    assert (command.code, command.remark, command.opaque, command.flag) == (17, "no such topic", 4, 1)
    assert command.ext == {"a": "b"}
