import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.options import UnreadableSource
from orbitmq.options.properties import format_properties, parse_properties


def parse(text: str) -> dict[str, str]:
    return parse_properties(text.encode("latin-1"), "test")


# Values of java.util.Properties for the same texts.
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("  a = b c ", {"a": "b c "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n! c=d\n  # e=f", {}),
        ("a=#b", {"a": "#b"}),
        ("a=1\r\nb=2\rc=3\n\n\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\:b\\ c=d", {"a:b c": "d"}),
        ("a=\\t\\n\\r\\f\\x\\\\", {"a": "\t\n\r\fx\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\uD83D\\uDE00", {"a": "\N{GRINNING FACE}"}),
        ("a=é", {"a": "é"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, pairs: dict[str, str]) -> None:
    assert parse(text) == pairs


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=b"])
def test_a_malformed_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(UnreadableSource, match=r"test line 2: malformed"):
        parse("x=y\n" + text)


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_reads_back(pairs: dict[str, str]) -> None:
    whole = {
        key.encode("utf-8", "replace").decode(): value.encode("utf-8", "replace").decode()
        for key, value in pairs.items()
    }
    assert parse_properties(format_properties(whole).encode("ascii"), "test") == whole


@given(st.binary())
def test_any_bytes_give_pairs_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(UnreadableSource):
        parse_properties(data, "test")


def test_a_broker_conf_as_apache_ships_it() -> None:
    text = (
        "# Licensed to the Apache Software Foundation\n\nbrokerClusterName = DefaultCluster\n"
        "brokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\nfileReservedTime = 48\n"
        "brokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
    )
    assert parse(text)["deleteWhen"] == "04"
    assert len(parse(text)) == 7
