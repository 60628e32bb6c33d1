"""Bodies compressed by their sender: zlib, LZ4 frames, Zstandard frames.

The algorithm stands in sysFlag. LZ4 and Zstandard are not in the standard library before Python 3.14; the
`fast` extra installs them. Inflating stops at a limit before the memory is taken, so that a few kilobytes
from the network cannot become gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from orbitmq.extras import lacking
from orbitmq.protocol.errors import Malformed, OrbitError
from orbitmq.protocol.records.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

DEFAULT_LEVEL = 5
"""The level at which Apache's client compresses. Levels of all kinds go from 1 (fast) to 9 (small)."""
DEFAULT_MAX_INFLATED_BYTES = 16 << 20
"""Limit in bytes of one inflated body, where a reader is given no other: brokers accept 4 MiB by default."""
PIECE_BYTES = 256 << 10
"""Inflated bytes that are made at a time."""
_LEAST_WINDOW_BITS = 23
"""Every reader of Zstandard takes windows of 8 MiB: its format asks for that."""


class CompressionError(OrbitError):
    """A body that could not be compressed or inflated."""


class BadCompression(CompressionError, Malformed):
    """Bytes that are no whole stream of their kind."""


class InflatedTooLarge(CompressionError, Malformed):
    """A body that inflates to more than the reader takes: to more than `limit_bytes`."""

    def __init__(self, text: str, limit_bytes: int) -> None:
        super().__init__(text)
        self.limit_bytes = limit_bytes


class CompressionMissing(CompressionError):
    """The library for this kind of compression is not installed."""


def inflate(data: bytes | memoryview, sys_flag: int, limit_bytes: int) -> bytes:
    """The body that was compressed, as the compression bits of `sys_flag` say.

    Raises InflatedTooLarge for a body of more than `limit_bytes`, BadCompression for anything but exactly one
    whole stream, CompressionMissing without the library it takes.
    """
    pieces = list(inflated_pieces(data, sys_flag, limit_bytes))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def inflated_pieces(
    data: bytes | memoryview, sys_flag: int, limit_bytes: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[bytes]:
    """The body in pieces of `piece_bytes` at most, each made when it is asked for. Raises as `inflate`."""
    name, inflater, errors = _inflater(sys_flag & COMPRESSION_MASK, limit_bytes)
    size = 0
    while True:
        try:
            # One byte more than allowed shows a body that is too large.
            piece: bytes = inflater.decompress(data, min(piece_bytes, limit_bytes + 1 - size))
        except errors as error:
            if "too much memory" in str(error):
                raise InflatedTooLarge(
                    f"the {name} body of {len(data)} bytes asks for the memory of one above {limit_bytes}",
                    limit_bytes,
                ) from None
            raise BadCompression(f"the {name} body cannot be inflated: {error}") from None
        size += len(piece)
        if size > limit_bytes:
            raise InflatedTooLarge(f"a {name} body inflates to more than {limit_bytes} bytes", limit_bytes)
        if piece:
            yield piece
        if inflater.eof:
            break
        data = getattr(inflater, "unconsumed_tail", b"")
        if not data and (not piece or getattr(inflater, "needs_input", False)):
            raise BadCompression(f"the {name} body is cut off")
    if inflater.unused_data:
        raise BadCompression(f"{len(inflater.unused_data)} bytes follow the {name} body")


def _inflater(kind: int, limit_bytes: int) -> tuple[str, Any, tuple[type[Exception], ...]]:
    """The name of a kind of compression, an inflater of one body, and the errors that it raises."""
    if kind in (0, COMPRESSION_ZLIB):
        return "zlib", zlib.decompressobj(), (zlib.error,)
    if kind == COMPRESSION_LZ4:
        return "LZ4", _lz4().LZ4FrameDecompressor(), (RuntimeError, ValueError)
    if kind == COMPRESSION_ZSTD:
        zstd = _zstd()
        # The header names the window, which is taken before anything is inflated.
        window_bits = min(max(_LEAST_WINDOW_BITS, (limit_bytes - 1).bit_length()), 30)
        options = {zstd.DecompressionParameter.window_log_max: window_bits}
        return "Zstandard", zstd.ZstdDecompressor(options=options), (zstd.ZstdError,)
    raise BadCompression(f"compression type {kind >> 8} is unknown")


def deflate(body: bytes | memoryview, kind: int = COMPRESSION_ZLIB, level: int = DEFAULT_LEVEL) -> bytes:
    """`body` compressed with one of the COMPRESSION kinds.

    Raises CompressionMissing without the library it takes, ValueError for a kind that there is not.
    """
    if kind in (0, COMPRESSION_ZLIB):
        return zlib.compress(body, level)
    packed: bytes
    if kind == COMPRESSION_LZ4:
        packed = _lz4().compress(bytes(body), compression_level=level)
    elif kind == COMPRESSION_ZSTD:
        packed = _zstd().compress(bytes(body), level)
    else:
        raise ValueError(f"{kind:#x} is no kind of compression")
    return packed


def deflated_if_smaller(
    body: bytes, kind: int = COMPRESSION_ZLIB, level: int = DEFAULT_LEVEL
) -> tuple[bytes, int]:
    """`body` compressed, and the bits of sysFlag that say so; as it is, with 0, where that is no shorter.

    Raises as `deflate`.
    """
    packed = deflate(body, kind, level)
    return (packed, flag_of(kind)) if len(packed) < len(body) else (body, 0)


def flag_of(kind: int) -> int:
    """The bits of sysFlag for a body compressed with one of the COMPRESSION kinds."""
    return COMPRESSED | kind


def _lz4() -> Any:
    return _library("LZ4", "lz4", "lz4.frame")


def _zstd() -> Any:
    return _library("Zstandard", "backports.zstd", "compression.zstd", "backports.zstd")


def _library(name: str, package: str, *modules: str) -> Any:
    for module in modules:
        try:
            return import_module(module)
        except ImportError:
            continue
    raise CompressionMissing(lacking(f"a body in {name}", package, "fast"))
