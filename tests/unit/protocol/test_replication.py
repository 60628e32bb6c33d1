"""The stream between slave and master, cut anywhere, and what is no such stream."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.epoch_replication import encode_handshake
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.header_cy import encode_command
from orbitmq.protocol.replication import (
    MAX_PHYSICAL_OFFSET,
    MAX_PIECE_BYTES,
    BadStream,
    Piece,
    PieceReader,
    ReportReader,
    encode_header,
    encode_report,
)


def test_bytes_as_apache_writes_them() -> None:
    assert encode_report(1 << 33).hex() == "0000000200000000"
    assert encode_header(4096, 3).hex() == "000000000000100000000003"


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    return [data[a:b] for a, b in pairwise(places)]


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(max_size=50)), max_size=8),
    st.lists(st.integers(0, 500)),
)
def test_pieces_come_out_as_they_went_in(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_header(at, len(body)) + body for at, body in sent)
    reader = PieceReader()
    assert [one for part in pieces_of(data, cuts) for one in reader.feed(part)] == [
        Piece(*one) for one in sent
    ]


def test_the_header_is_known_before_its_bytes() -> None:
    reader = PieceReader()
    assert reader.feed(encode_header(77, 10) + b"abc") == []
    assert reader.next_offset == 77


@given(
    st.lists(st.integers(0, MAX_PHYSICAL_OFFSET - 1), min_size=1, max_size=9).map(sorted),
    st.lists(st.integers(0, 80)),
)
def test_the_newest_whole_report_counts(offsets: list[int], cuts: list[int]) -> None:
    reader = ReportReader()
    told = [reader.feed(part) for part in pieces_of(b"".join(map(encode_report, offsets)), cuts)]
    assert [one for one in told if one is not None][-1] == offsets[-1]


def test_a_report_below_an_earlier_one_is_refused() -> None:
    reader = ReportReader()
    assert reader.feed(encode_report(9)) == 9
    with pytest.raises(BadStream):
        reader.feed(encode_report(8))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: broker:10912\r\n\r\n", "an HTTP request"),
        (encode_command(Command(105)), "a client's request, which belongs to the broker's listenPort"),
        (encode_command(Command(105, serialize=1)), "a client's request"),
        (encode_handshake(2), "set enableControllerMode alike"),
        (encode_report(-1), "an unknown protocol (ff ff ff ff ff ff ff ff)"),
        (b"hello, world", "an unknown protocol"),
        (encode_report(9) + encode_report(8), "an unknown protocol"),
    ],
    ids=["HTTP", "JSON request", "binary request", "controller mode", "negative", "text", "decreasing"],
)
def test_strangers_are_refused_and_called_by_their_protocol(data: bytes, says: str) -> None:
    with pytest.raises(BadStream, match=re.escape(says)):
        ReportReader().feed(data)


@pytest.mark.parametrize(
    "header", [b"\0" * 8 + b"\x7f\xff\xff\xff", b"\0" * 8 + b"\xff\xff\xff\xff", b"\x80" + b"\0" * 11]
)
def test_pieces_that_no_master_sends_are_refused_before_they_take_memory(header: bytes) -> None:
    with pytest.raises(BadStream):
        PieceReader().feed(header)


def test_no_piece_larger_than_a_slaves_buffer_is_made() -> None:
    assert len(encode_header(0, MAX_PIECE_BYTES)) == 12
    with pytest.raises(ValueError, match="limit"):
        encode_header(0, MAX_PIECE_BYTES + 1)
