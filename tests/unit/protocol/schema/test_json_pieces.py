"""Long texts, read in pieces: the value is the standard reader's, which never has a long text at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema import fastjson, json_pieces
from orbitmq.protocol.schema.json_pieces import PIECES, Reader, count

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def refuse(name: str) -> Any:
    raise ValueError(name)


def read(text: str, *pieces: int) -> Any:
    """The value, read in small pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECES", pieces or (4, 16))
        return Reader(text, 20, json.JSONDecoder(parse_constant=refuse)).document()


@given(VALUES, st.sampled_from([None, 1]), st.integers(60, 90))
def test_a_text_in_pieces_has_the_value_of_the_whole(value: Any, indent: int | None, piece: int) -> None:
    text = json.dumps(value, indent=indent)
    assert read(text, piece, 3 * piece) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "[1,2", '{"a":1', '{"a"', '{"a":', "[1 2]", '{"a" 1}', "{a:1}", "[1,]", "nul", "NaN", "[NaN]",
     '"abc', "1 2", '{"a":1}}', "[" * 30 + "]" * 30],
)  # fmt: skip
def test_a_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"character|within|value|column|deep"):
        read(text, 3)


def test_a_key_may_be_a_bare_number() -> None:
    assert read('{-1:"one", 22 :[{3:4}]}', 6) == {"-1": "one", "22": [{"3": 4}]}


def test_a_number_that_ends_with_a_piece_goes_on_in_the_next() -> None:
    assert read("[123456,789]", 4, 10) == [123456, 789]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_bytes_are_counted_in_pieces(data: bytes, piece: int) -> None:
    assert count(data, b",[", piece) == data.count(b",") + data.count(b"[")


def long_table() -> bytes:
    """A broker's whole table, of 4 MB."""
    topics = {
        f"T{number}": {"topicName": f"T{number}", "attributes": {}, "perm": 6} for number in range(60_000)
    }
    return json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": topics}}).encode()


@pytest.mark.parametrize("data", [long_table(), b"[" + b"12345," * 500_000 + b"1]"], ids=["table", "list"])
def test_the_standard_reader_never_has_a_long_text(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    real = json.JSONDecoder.raw_decode

    # With the names of the standard library, for threads of other tests may read JSON meanwhile.
    def noted(self: json.JSONDecoder, s: str, idx: int = 0) -> tuple[Any, int]:
        lengths.append(len(s) - idx)
        return real(self, s, idx)

    expected = json.loads(data)
    monkeypatch.setattr(json.JSONDecoder, "raw_decode", noted)
    assert fastjson.parse(data) == expected
    assert max(lengths) <= PIECES[-1]


def test_a_long_text_that_is_not_json_is_read_as_fastjson_would() -> None:
    rows = ",".join(f"{number}:'x'" for number in range(20_000))
    assert len(fastjson.parse("{" + rows + "}")) == 20_000
    with pytest.raises(MalformedJson):
        fastjson.parse("{" + rows)
    with pytest.raises(MalformedJson, match="not UTF-8"):
        fastjson.parse(b"\xff" * 200_000)
