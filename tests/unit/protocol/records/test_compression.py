"""Compressed bodies: exactly one whole stream of its kind, and never more memory than the reader allows."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from orbitmq.protocol.records.compression import (
    BadCompression,
    CompressionMissing,
    InflatedTooLarge,
    deflate,
    flag_of,
    inflate,
    inflated_pieces,
)
from orbitmq.protocol.records.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

BODY = b"one line of text, again and again\n" * 40
KINDS = pytest.mark.parametrize("kind", [COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD])


def packed(kind: int, body: bytes = BODY) -> bytes:
    """A body compressed so; skips the test where the library is not installed."""
    try:
        return deflate(body, kind)
    except CompressionMissing as error:
        pytest.skip(str(error))


@KINDS
def test_a_body_comes_back_as_it_was(kind: int) -> None:
    data = packed(kind)
    assert len(data) < len(BODY)
    assert flag_of(kind) & COMPRESSED
    assert inflate(memoryview(data), flag_of(kind), len(BODY)) == BODY


@KINDS
def test_a_body_of_one_byte_more_than_allowed_is_refused(kind: int) -> None:
    with pytest.raises(InflatedTooLarge, match=f"inflates to more than {len(BODY) - 1}"):
        inflate(packed(kind), kind, len(BODY) - 1)


@KINDS
def test_a_small_body_does_not_become_a_large_one_in_memory(kind: int) -> None:
    data = packed(kind, bytes(16 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InflatedTooLarge):
            inflate(data, kind, 1000)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@KINDS
def test_a_body_comes_in_pieces_none_of_which_is_larger_than_asked_for(kind: int) -> None:
    body = bytes(range(256)) * 1000
    pieces = list(inflated_pieces(packed(kind, body), kind, len(body), 1000))
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= 1000


@KINDS
def test_the_beginning_of_a_body_is_made_without_the_rest(kind: int) -> None:
    data = packed(kind, BODY + bytes(64 << 20))
    tracemalloc.start()
    try:
        assert next(inflated_pieces(data, kind, 128 << 20, len(BODY))) == BODY
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_memory_that_only_a_header_claims_is_not_taken() -> None:
    try:
        from backports import zstd
    except ImportError:
        zstd = pytest.importorskip("compression.zstd")
    maker = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    data = maker.compress(BODY) + maker.flush()
    with pytest.raises(InflatedTooLarge, match="asks for the memory") as refused:
        inflate(data, COMPRESSION_ZSTD, 16 << 20)
    assert refused.value.limit_bytes == 16 << 20
    assert inflate(data, COMPRESSION_ZSTD, 128 << 20) == BODY


@KINDS
def test_a_body_that_is_cut_or_followed_by_bytes_is_refused(kind: int) -> None:
    data = packed(kind)
    for wrong in (data[:-1], data[: len(data) // 2], b"", data + b"\x00", b"no stream of any kind"):
        with pytest.raises(BadCompression):
            inflate(wrong, kind, len(BODY))


def test_without_a_kind_it_is_zlib_as_of_old_clients() -> None:
    assert inflate(deflate(BODY), COMPRESSED, len(BODY)) == BODY


def test_a_kind_that_there_is_not_is_refused() -> None:
    unknown = COMPRESSION_MASK
    with pytest.raises(BadCompression, match="is unknown"):
        inflate(deflate(BODY), unknown, len(BODY))
    with pytest.raises(ValueError, match="is no kind of compression"):
        deflate(BODY, unknown)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("lz4.frame", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    with pytest.raises(CompressionMissing, match=r"LZ4 needs lz4, which .*orbitmq\[fast\]"):
        deflate(BODY, COMPRESSION_LZ4)
    with pytest.raises(CompressionMissing, match=r"Zstandard needs backports\.zstd"):
        inflate(BODY, COMPRESSION_ZSTD, 10)
