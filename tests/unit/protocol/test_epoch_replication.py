"""The stream between members of a group in controller mode, cut anywhere, and what is no such stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.epoch_replication import (
    MAX_PIECE_BYTES,
    Answer,
    Epoch,
    EpochPiece,
    MasterReader,
    SlaveReader,
    encode_answer,
    encode_handshake,
    encode_header,
    encode_report,
)
from orbitmq.protocol.replication import BadStream

OFFSETS = st.integers(0, 1 << 60)
EPOCHS = st.builds(Epoch, st.integers(0, (1 << 31) - 1), OFFSETS)
PIECES = st.builds(EpochPiece, OFFSETS, EPOCHS, OFFSETS, st.binary(max_size=300))


def in_cuts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_the_form_is_that_of_the_reference() -> None:
    assert encode_handshake(2).hex() == "00000001000000000000000000000002"
    assert encode_report(4096).hex() == "000000020000000000001000"
    answer = encode_answer(300, [Epoch(1, 0), Epoch(2, 256)])
    assert answer.hex() == (
        "00000001" "00000018" "000000000000012c" "00000002"
        "00000001" "0000000000000000" "00000002" "0000000000000100"
    )  # fmt: skip
    header = encode_header(256, 44, Epoch(2, 256), 200)
    assert header.hex() == (
        "00000002" "0000002c" "0000000000000100" "00000002" "0000000000000100" "00000000000000c8"
    )  # fmt: skip


@given(st.integers(1, 1 << 40), st.lists(OFFSETS, min_size=1, max_size=20), st.integers(1, 40))
def test_a_slave_is_understood_wherever_its_bytes_are_cut(
    broker_id: int, reports: list[int], size: int
) -> None:
    reader, newest = SlaveReader(), None
    for part in in_cuts(encode_handshake(broker_id) + b"".join(map(encode_report, reports)), size):
        report = reader.feed(part)
        newest = newest if report is None else report
    assert reader.handshake is not None
    assert (reader.handshake.broker_id, newest) == (broker_id, reports[-1])


@given(OFFSETS, st.lists(EPOCHS, max_size=8), st.lists(PIECES, max_size=8), st.integers(1, 200))
def test_a_master_is_understood_wherever_its_bytes_are_cut(
    log_end: int, epochs: list[Epoch], pieces: list[EpochPiece], size: int
) -> None:
    data = encode_answer(log_end, epochs) + b"".join(
        encode_header(piece.physical_offset, len(piece.data), piece.epoch, piece.confirm_offset) + piece.data
        for piece in pieces
    )
    reader, found = MasterReader(), list[EpochPiece]()
    for part in in_cuts(data, size):
        found += reader.feed(part)
    assert reader.answer == Answer(log_end, epochs)
    assert found == pieces


@given(st.binary(max_size=400))
def test_other_bytes_are_refused_or_waited_for(data: bytes) -> None:
    for reader in (SlaveReader(), MasterReader()):
        try:
            reader.feed(data)
        except BadStream:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        encode_report(5) + bytes(8),
        encode_handshake(0),
        encode_handshake(2) + encode_handshake(2),
        encode_handshake(2) + b"\0\0\0\2" + b"\xff" * 8,
    ],
)
def test_who_is_no_slave_is_refused(data: bytes) -> None:
    with pytest.raises(BadStream):
        SlaveReader().feed(data)


def test_a_stranger_is_called_by_its_protocol() -> None:
    with pytest.raises(BadStream, match="an HTTP request"):
        SlaveReader().feed(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    "data",
    [
        bytes(20),
        b"\0\0\0\1" + b"\x7f\xff\xff\xff" + bytes(12),
        b"\0\0\0\1" + b"\0\0\0\5" + bytes(12),
        encode_answer(0, [Epoch(1, 0)])[:-12] + bytes(12) + b"x" * 36,
        encode_answer(0, []) + b"\0\0\0\2" + b"\x7f\xff\xff\xff" + bytes(28),
        encode_answer(0, []) + b"\0\0\0\2" + b"\xff\xff\xff\xff" + bytes(28),
    ],
)
def test_who_is_no_master_is_refused(data: bytes) -> None:
    with pytest.raises(BadStream):
        MasterReader().feed(data)


def test_a_piece_is_smaller_than_the_buffer_of_apaches_slave() -> None:
    encode_header(0, MAX_PIECE_BYTES, Epoch(1, 0), 0)
    with pytest.raises(ValueError, match="limit"):
        encode_header(0, MAX_PIECE_BYTES + 1, Epoch(1, 0), 0)
