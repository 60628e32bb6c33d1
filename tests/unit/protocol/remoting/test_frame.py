"""Streams cut into frames, at every place a network can cut them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, LANGUAGE_OTHER, Command, Oversized
from orbitmq.protocol.remoting.frame import JOINED_BYTES, FrameSplitter, encode_command

LIMIT = 1 << 16


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 50])
def test_pieces_of_any_size_give_the_same_commands(size: int) -> None:
    stream = b"".join(encode_command(Command(10, opaque, 0, {"a": "b"}, b"body")) for opaque in range(5))
    splitter = FrameSplitter(LIMIT)
    found = []
    for at in range(0, len(stream), size):
        found += splitter.feed(stream[at : at + size])
    assert [command.opaque for command in found] == list(range(5))
    assert splitter.pending_bytes == 0


@given(st.lists(st.sampled_from([1, 7, 8, 4000, JOINED_BYTES - 1, 3 * JOINED_BYTES]), max_size=10))
def test_large_frames_may_come_in_large_and_small_pieces(sizes: list[int]) -> None:
    stream = b"".join(encode_command(Command(10, n, 0, None, bytes([n]) * 90_000)) for n in range(4))
    splitter, found, at = FrameSplitter(), [], 0
    for size in itertools.cycle([*sizes, JOINED_BYTES]):
        kind = (bytes, bytearray, memoryview)[size % 3]
        found += splitter.feed(kind(stream[at : at + size]))
        at += size
        assert splitter.pending_bytes == min(at, len(stream)) - sum(map(len, map(encode_command, found)))
        if at >= len(stream):
            break
    assert [(command.opaque, bytes(command.body)) for command in found] == [
        (n, bytes([n]) * 90_000) for n in range(4)
    ]


@pytest.mark.parametrize("first", [4, 5, 6, 7])
def test_a_length_that_no_frame_has_is_refused_though_it_comes_by_itself(first: int) -> None:
    """Found by fuzzing: four bytes alone made the splitter wait for, and hold, up to four gigabytes."""
    data = bytes.fromhex("7fffffff00000010") + bytes(100)
    splitter = FrameSplitter(LIMIT)
    assert splitter.feed(data[:first]) == []
    with pytest.raises(MalformedFrame):
        splitter.feed(data[first:])


def test_behind_a_whole_frame_a_length_is_checked_as_well() -> None:
    splitter = FrameSplitter(LIMIT)
    assert len(splitter.feed(encode_command(Command(10, 1, 0)) + bytes.fromhex("7fffffff"))) == 1
    with pytest.raises(MalformedFrame):
        splitter.feed(bytes(4))


def test_whole_frames_may_be_taken_before_they_are_cut() -> None:
    frames = [encode_command(Command(code, code)) for code in (1, 2, 3)]
    data = b"".join(frames)
    offered: list[bytes] = []

    def take_first(seen: bytes) -> int:
        offered.append(seen)
        return len(frames[0]) if seen.startswith(frames[0]) else 0

    splitter = FrameSplitter()
    cut = len(data) - 3
    assert [command.code for command in splitter.feed(data[:cut], take_first)] == [2]
    assert splitter.pending_bytes == len(frames[2]) - 3
    # A partial frame is offered again once it is whole, with what follows it.
    assert [command.code for command in splitter.feed(data[cut:] + data, take_first)] == [3, 1, 2, 3]
    assert offered == [data[:cut], frames[2] + data]
    assert splitter.pending_bytes == 0
    assert splitter.feed(frames[0], take_first) == []


def heartbeat(body_bytes: int, opaque: int = 7) -> bytes:
    return encode_command(Command(34, opaque, body=bytes(body_bytes)))


@pytest.mark.parametrize("size", [1, 50, 70_000, 1 << 20, 4 << 20])
def test_a_body_that_is_too_long_is_passed_over_as_it_comes(size: int) -> None:
    splitter = FrameSplitter(max_body=lambda code: 100_000)
    before, after = heartbeat(3, 1), heartbeat(5, 2)
    length = 110_000 if size == 1 else 3 << 20
    stream = before + heartbeat(length) + after
    found = []
    for at in range(0, len(stream), size):
        found += splitter.feed(stream[at : at + size])
        assert size > 1 << 20 or splitter.pending_bytes <= max(size, 1000)
    assert [command.opaque for command in found] == [1, 7, 2]
    first, refused, last = found
    assert (first.body, last.body) == (bytes(3), bytes(5))
    if size <= 1 << 20:  # a frame that came whole is the dispatcher's to refuse
        assert isinstance(refused, Oversized)
        assert (refused.body, refused.body_bytes) == (None, length)


def test_answers_and_bodies_that_may_be_so_long_are_kept() -> None:
    splitter = FrameSplitter(max_body=lambda code: 0 if code == 34 else 1 << 20)
    stream = encode_command(Command(10, 1, body=bytes(1 << 20))) + encode_command(
        Command(34, 2, FLAG_RESPONSE, body=bytes(1 << 20))
    )
    found = [
        command for at in range(0, len(stream), 9999) for command in splitter.feed(stream[at : at + 9999])
    ]
    assert [len(command.body or b"") for command in found] == [1 << 20, 1 << 20]


NUMBERS = [
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "9" * 400,
    "9" * 5000,
    "[]",
    "{}",
    '"x"',
    '"1e9"',
    "null",
    "1.5",
]


@pytest.mark.parametrize("field", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("value", NUMBERS)
def test_header_numbers_are_numbers_or_malformed(field: str, value: str) -> None:
    header = b'{"%s":%s}' % (field.encode(), value.encode())
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    try:
        FrameSplitter().feed(frame)
    except MalformedFrame:
        return
    assert value == "1.5"


HOSTILE = [
    b'{"code":1e999}',
    b'{"extFields":{"a":1e999,"b":NaN,"c":' + b"9" * 5000 + b"}}",
    b'{"extFields":{"topic":"\\ud800"}}',
    b'{"extFields":{"\\udfff":"x"}}',
    b'{"remark":"\\ud800"}',
    b'{"extFields":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    b"[" * 200_000,
    b'{"code":1,"code":[],"code":2}',
    b'{"extFields":[]}',
    b'{"extFields":{"a":[]}}',
    b'{"language":{"a":1},"remark":[1]}',
    b"\xff\xfe{\x00}\x00",
    b"\x00",
    b"",
]


@pytest.mark.parametrize("header", HOSTILE)
def test_hostile_headers_are_malformed_and_nothing_else(header: bytes) -> None:
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    try:
        (command,) = FrameSplitter().feed(frame)
    except MalformedFrame:
        return
    encode_command(command)  # whatever was taken can be passed on


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["code", "opaque", "flag", "version", "language", "remark", "extFields"]) | st.text()


@given(st.dictionaries(names, json_values | st.dictionaries(st.text(), json_values, max_size=4), max_size=8))
def test_any_json_header_is_a_command_or_malformed(fields: dict[str, Any]) -> None:
    header = json.dumps(fields).encode()
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    try:
        (command,) = FrameSplitter().feed(frame)
    except MalformedFrame:
        return
    encode_command(command)


@pytest.mark.parametrize("name", ["cold", "codes", "opaqua", "flax", "versioM", "languagE", "remarK", "sort"])
def test_a_field_that_no_header_has_is_passed_over(name: str) -> None:
    """Even one that begins like a known field, and is as long."""
    for value in (77, "77"):
        header = json.dumps({"code": 10, "opaque": 5, "flag": 2, "remark": "r", name: value}).encode()
        frame = (len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
        (command,) = FrameSplitter(LIMIT).feed(frame)
        assert command == Command(10, 5, 2, None, None, "r", LANGUAGE_OTHER, 0)
