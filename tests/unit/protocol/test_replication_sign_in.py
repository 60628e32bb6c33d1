"""Messages of the sign-in on the HA port: whole again however they are cut, nothing that Apache stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.protocol.replication import READ_BUFFER_BYTES, BadStream, PieceReader, ReportReader
from orbitmq.protocol.replication_sign_in import (
    MAX_NAME_BYTES,
    OPENING,
    Claim,
    SignInReader,
    Verdict,
    encode_challenge,
    encode_claim,
    encode_verdict,
)

NONCE = bytes(range(32))
PROOF = bytes(reversed(range(32)))

MESSAGES: list[tuple[bytes, Callable[[SignInReader], Any], Any]] = [
    (encode_challenge(NONCE), SignInReader.challenge, NONCE),
    (encode_claim(Claim("ann", NONCE, PROOF)), SignInReader.claim, Claim("ann", NONCE, PROOF)),
    (encode_claim(Claim("中文" * 40, NONCE, PROOF)), SignInReader.claim, Claim("中文" * 40, NONCE, PROOF)),
    (encode_verdict(Verdict(PROOF)), SignInReader.verdict, Verdict(PROOF)),
    (encode_verdict(Verdict(None, "no")), SignInReader.verdict, Verdict(None, "no")),
    (encode_verdict(Verdict(None, "x" * 5_000)), SignInReader.verdict, Verdict(None, "x" * 1_000)),
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("size", [1, 7, 31, 64])
def test_a_message_is_read_once_it_is_whole_wherever_it_was_cut(
    message: tuple[bytes, Callable[[SignInReader], Any], Any], size: int
) -> None:
    wire, read, meant = message
    reader = SignInReader()
    for begin in range(0, len(wire), size):
        assert read(reader) is None
        reader.feed(wire[begin : begin + size])
    assert read(reader) == meant
    assert reader.take_rest() == b""


def test_what_stands_behind_a_message_is_kept() -> None:
    for wire, read, meant in MESSAGES:
        reader = SignInReader()
        reader.feed(wire + b"behind")
        assert read(reader) == meant
        assert reader.take_rest() == b"behind"


@pytest.mark.parametrize(
    "said", [bytes(8), b"\x00", b"GET / HTTP/1.1", b"\xffORBITHB", OPENING[:-1] + b"\x02"]
)
def test_other_bytes_are_no_sign_in(said: bytes) -> None:
    with pytest.raises(BadStream):
        SignInReader().feed(said)


def test_a_reason_without_an_end_is_refused() -> None:
    reader = SignInReader()
    reader.feed(OPENING + b"\x00\xff\xff")
    with pytest.raises(BadStream, match="65535"):
        reader.verdict()


def test_a_name_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(ValueError, match=str(MAX_NAME_BYTES)):
        encode_claim(Claim("x" * 256, NONCE, PROOF))


def test_brokers_without_sign_in_take_it_for_neither_a_report_nor_a_piece() -> None:
    with pytest.raises(BadStream):
        ReportReader().feed(encode_claim(Claim("ann", NONCE, PROOF)))
    with pytest.raises(BadStream):
        PieceReader().feed(encode_challenge(NONCE))
    # Apache's slave waits for as many bytes as such a piece says, and has no room for them.
    assert int.from_bytes(OPENING[8:12], "big") > READ_BUFFER_BYTES
