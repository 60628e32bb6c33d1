"""Streams cut into frames, at every place a network can cut them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.command import Command
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.frame import JOINED_BYTES, FrameSplitter, encode_command

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
    # What was left is offered again once it is whole, with what follows it.
    assert [command.code for command in splitter.feed(data[cut:] + data, take_first)] == [3, 1, 2, 3]
    assert offered == [data[:cut], frames[2] + data]
    assert splitter.pending_bytes == 0
    assert splitter.feed(frames[0], take_first) == []
