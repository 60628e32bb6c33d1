from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import pytest

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema.json_body import JsonBody, Long, named


class Colour(IntEnum):
    """An enum."""

    RED = 0
    DARK_BLUE = 1


@dataclass(slots=True, frozen=True, order=True)
class Key(JsonBody):
    """A body that stands as a key."""

    topic: str = ""
    queue_id: int = 0


@dataclass(slots=True)
class Everything(JsonBody):
    """A field of each type."""

    DERIVED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"doubled": lambda body: body.number * 2}

    number: int = 5
    long_number: Long = 0
    flag: bool = True
    rate: float = 0.5
    text: str = ""
    maybe: str | None = None
    maybe_number: int | None = None
    colour: Colour | None = Colour.RED
    data: bytes | None = None
    names: list[str] = field(default_factory=list)
    codes: set[int] = field(default_factory=set)
    inner: Key = field(default_factory=Key)
    maybe_inner: Key | None = None
    by_name: dict[str, Key] = field(default_factory=dict)
    by_number: dict[int, list[Long]] = field(default_factory=dict)
    by_key: dict[Key, Long] = field(default_factory=dict)
    client_id: str = field(default="", metadata=named("clientID"))


def _read(text: str) -> Everything:
    return Everything.from_json(text)


def test_the_text_is_sorted_and_without_what_is_absent() -> None:
    assert Everything().to_json_text() == (
        '{"byKey":{},"byName":{},"byNumber":{},"codes":[],"colour":"RED","doubled":10,"flag":true,'
        '"inner":{"queueId":0},"longNumber":0,"names":[],"number":5,"rate":0.5}'
    )


def test_everything_there_and_back() -> None:
    body = Everything(
        number=-1,
        long_number=1 << 40,
        flag=False,
        rate=1e10,
        text='q"uote\u00e9',
        maybe="",
        maybe_number=0,
        colour=Colour.DARK_BLUE,
        data=b"\x00\xff",
        names=["b", "a"],
        codes={3, -2, 1},
        inner=Key("T", 1),
        maybe_inner=Key("U", 2),
        by_name={"x": Key("X")},
        by_number={7: [1, 2]},
        by_key={Key("T", 1): 9},
        client_id="c",
    )
    for text in (body.to_json(), body.to_pretty_json(), body.to_standard_json(), body.to_json_text()):
        assert _read(text) == body
    assert '"codes":[-2,1,3]' in body.to_json_text(), "the same set has the same text"
    assert '{{"queueId":1,"topic":"T"}:9}' in body.to_json_text()
    assert '"byNumber":{7:[1,2]}' in body.to_json_text()
    assert '"maybe":""' in body.to_json_text()
    assert '"clientID":"c"' in body.to_json_text()
    assert body.to_value()["inner"] == {"queueId": 1, "topic": "T"}


def test_standard_json_quotes_every_key() -> None:
    text = Everything(by_number={10: [1], 9: []}, text="\u00e9").to_standard_json()
    assert b'"byNumber":{"10":[1],"9":[]}' in text
    assert b'"text":"\\u00e9"' in text


def test_absent_is_the_default_and_null_is_nothing() -> None:
    assert _read("{}") == Everything()
    nothing = _read(
        '{"number":null,"longNumber":null,"flag":null,"rate":null,"text":null,"maybe":null,"colour":null,'
        '"data":null,"names":null,"codes":null,"inner":null,"byName":null,"byNumber":null,"byKey":null}'
    )
    assert nothing == Everything(number=0, flag=False, rate=0.0, colour=None)


@pytest.mark.parametrize(
    ("text", "field_name", "value"),
    [
        ('{"number":"12"}', "number", 12),
        ('{"number":3.0}', "number", 3),
        ('{"flag":"TRUE"}', "flag", True),
        ('{"flag":"false"}', "flag", False),
        ('{"flag":1}', "flag", True),
        ('{"rate":"2.5"}', "rate", 2.5),
        ('{"rate":2}', "rate", 2.0),
        ('{"text":5}', "text", "5"),
        ('{"text":true}', "text", "true"),
        ('{"colour":"dark_blue"}', "colour", Colour.DARK_BLUE),
        ('{"colour":1}', "colour", Colour.DARK_BLUE),
        ('{"colour":"1"}', "colour", Colour.DARK_BLUE),
        ('{"colour":"PINK"}', "colour", None),
        ('{"colour":7}', "colour", None),
        ('{"colour":"' + "9" * 5000 + '"}', "colour", None),
        ('{"names":["a",null]}', "names", ["a", None]),
        ('{"byName":{"a":null,"b":{}}}', "by_name", {"b": Key()}),
        ('{"number":1,"number":2}', "number", 2),
        ('{"byNumber":{1:[1],"1":[2]}}', "by_number", {1: [2]}),
        ("{'byKey':{{'topic' : 'T' , 'queueId':'4'}:5,}}", "by_key", {Key("T", 4): 5}),
        ('{"byKey":{"{\\"topic\\":\\"T\\"}":5}}', "by_key", {Key("T"): 5}),
        ('{"unknown":{"a":[1]},"number":6}', "number", 6),
        ('{"Number":6}', "number", 5),
        ('{"doubled":99}', "number", 5),
        ('{"data":"AP8="}', "data", b"\x00\xff"),
        ('{"data":""}', "data", b""),
    ],
)
def test_lenient_reading(text: str, field_name: str, value: object) -> None:
    assert getattr(_read(text), field_name) == value


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        "null",
        '{"number":"x"}',
        '{"number":[]}',
        '{"number":{}}',
        '{"number":2147483648}',
        '{"number":1e300}',
        '{"longNumber":9223372036854775808}',
        '{"flag":"perhaps"}',
        '{"flag":[]}',
        '{"rate":"fast"}',
        '{"rate":[]}',
        '{"text":[]}',
        '{"text":{}}',
        '{"colour":[]}',
        '{"colour":true}',
        '{"data":"***"}',
        '{"names":{}}',
        '{"names":[[]]}',
        '{"inner":[]}',
        '{"byName":[]}',
        '{"byName":{"a":5}}',
        '{"byNumber":{"x":[]}}',
        '{"byKey":{5:1}}',
        '{"byKey":{"x":1}}',
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson):
        _read(text)


def test_the_field_is_named() -> None:
    with pytest.raises(MalformedJson, match="byName: queueId: 'x' is not a 32-bit number"):
        _read('{"byName":{"a":{"queueId":"x"}}}')


def test_a_bare_list() -> None:
    @dataclass(slots=True)
    class Names(JsonBody):
        """Only a list."""

        BARE = "names"

        names: list[str] = field(default_factory=list)

    assert Names(["a"]).to_json_text() == '["a"]'
    assert Names.from_json('["a","b"]') == Names(["a", "b"])
    assert Names.from_json("null") == Names()
    assert Names(["a"]).to_value() == ["a"]


def test_declarations_that_make_no_sense() -> None:
    @dataclass(slots=True)
    class NoDefault(JsonBody):
        """A field has to have a default."""

        number: int

    @dataclass(slots=True)
    class Odd(JsonBody):
        """No JSON type."""

        thing: complex | None = None

    @dataclass(slots=True)
    class Either(JsonBody):
        """Two types."""

        thing: int | str = 0

    for cls in (NoDefault, Odd, Either):
        with pytest.raises(TypeError):
            cls.from_json("{}")
