"""Bodies compressed by their sender: zlib, LZ4 frames, Zstandard frames.

The algorithm stands in sysFlag. LZ4 and Zstandard are not in the standard library before Python 3.14; the
`fast` extra installs them. Inflating stops at a limit before the memory is taken, so that a few kilobytes
from the network cannot become gigabytes.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any

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
MAX_BODY_BYTES = 64 << 20
"""Limit in bytes of an inflated body, for readers of messages: brokers accept 4 MiB by default."""


class CompressionError(OrbitError):
    """A body that could not be compressed or inflated."""


class BadCompression(CompressionError, Malformed):
    """Bytes that are no whole stream of their kind."""


class InflatedTooLarge(CompressionError, Malformed):
    """A body that inflates to more than the reader takes."""


class CompressionMissing(CompressionError):
    """The library for this kind of compression is not installed."""


def inflate(data: bytes | memoryview, sys_flag: int, limit_bytes: int) -> bytes:
    """The body that was compressed, as the compression bits of `sys_flag` say.

    Raises InflatedTooLarge for a body of more than `limit_bytes`, BadCompression for anything but exactly one
    whole stream, CompressionMissing without the library it takes.
    """
    kind = sys_flag & COMPRESSION_MASK
    if kind in (0, COMPRESSION_ZLIB):
        name, inflater = "zlib", zlib.decompressobj()
        errors: tuple[type[Exception], ...] = (zlib.error,)
    elif kind == COMPRESSION_LZ4:
        name, inflater = "LZ4", _lz4().LZ4FrameDecompressor()
        errors = (RuntimeError, ValueError)
    elif kind == COMPRESSION_ZSTD:
        zstd = _zstd()
        name, inflater = "Zstandard", zstd.ZstdDecompressor()
        errors = (zstd.ZstdError,)
    else:
        raise BadCompression(f"compression type {kind >> 8} is unknown")
    try:
        # One byte more than allowed shows what is too large; a stream may end with empty blocks.
        body: bytes = inflater.decompress(data, limit_bytes + 1)
        if not inflater.eof and len(body) <= limit_bytes:
            body += _rest(inflater, limit_bytes + 1 - len(body))
    except errors as error:
        raise BadCompression(f"the {name} body cannot be inflated: {error}") from None
    if len(body) > limit_bytes:
        raise InflatedTooLarge(f"the {name} body of {len(data)} bytes inflates to more than {limit_bytes}")
    if not inflater.eof:
        raise BadCompression(f"the {name} body is cut off")
    if inflater.unused_data:
        raise BadCompression(f"{len(inflater.unused_data)} bytes follow the {name} body")
    return body


def _rest(inflater: Any, limit_bytes: int) -> bytes:
    """The output that an inflater still holds; empty if it needs more input."""
    tail = getattr(inflater, "unconsumed_tail", b"")
    if not tail and getattr(inflater, "needs_input", True):
        return b""
    rest: bytes = inflater.decompress(tail, limit_bytes)
    return rest


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
    raise CompressionMissing(f"for {name} bodies install {package}, or orbitmq[fast]")
