"""The body of a batch: several messages sent, or stored (inner batch), as one.

Of each message: `size i32 | 0 i32 | 0 i32 | flag i32 | body length i32, body | properties length i16,
properties`. Hot: a batch holds many messages.
"""

# mypy: disable-error-code="untyped-decorator,unused-ignore"

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message import MAX_PROPERTIES_BYTES, BadRecord, RecordTooLarge

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        Writer,
        find_byte,
        i16_of,
        i32_of,
        new_bytes,
        part_of,
        put_bytes,
        put_u16,
        put_u32,
        put_u64,
        span_of,
        writer_of_new,
        written,
    )

__all__ = ["encode_batch", "measure_batch", "split_batch"]

_FIXED_BYTES = 22
_HEAD = Struct(">iiiii")
_SHORT = Struct(">h")


def measure_batch(body: bytes) -> tuple[int, int, int, int]:
    """Sizes in the body of a batch: (messages, bytes of all bodies and properties together, longest body,
    longest body and properties of one message).

    Raises BadRecord where lengths do not add up or properties hold a zero byte.
    """
    count: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    longest_body: cython.Py_ssize_t = 0
    longest: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(body)
    size: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    properties_length: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    zero: cython.bint
    if cython.compiled:
        data: Span = span_of(body)
    while position < end:
        if end - position < 22:
            raise BadRecord("a message of the batch is cut off", position)
        if cython.compiled:
            size = i32_of(data, position)
            body_length = i32_of(data, position + 16)
        else:
            size, _, _, _, body_length = _HEAD.unpack_from(body, position)
        if size < 22 or size > end - position:
            raise BadRecord(f"a message of {size} bytes in a batch with {end - position} left", position)
        if body_length < 0 or body_length > size - 22:
            raise BadRecord(f"a body of {body_length} bytes in a message of {size}", position)
        properties_at = position + 22 + body_length
        if cython.compiled:
            properties_length = i16_of(data, properties_at - 2)
        else:
            (properties_length,) = _SHORT.unpack_from(body, properties_at - 2)
        if properties_length != position + size - properties_at:
            raise BadRecord(f"the parts of a message do not add up to its {size} bytes", position)
        if cython.compiled:
            zero = find_byte(part_of(data, properties_at, properties_length), 0) >= 0
        else:
            zero = b"\x00" in body[properties_at : position + size]
        if zero:
            raise BadRecord("a zero byte in the properties", position)
        count += 1
        total += size - 22
        longest_body = max(longest_body, body_length)
        longest = max(longest, size - 22)
        position += size
    return count, total, longest_body, longest


def split_batch(body: bytes | memoryview) -> list[tuple[int, bytes, bytes]]:
    """The messages in the body of a batch: (flag, body, properties) of each.

    Raises BadRecord as `measure_batch` does. At most 190,000 messages fit into the 4 MiB that a broker takes.
    """
    if not isinstance(body, bytes):
        body = bytes(body)
    measure_batch(body)
    messages: list[tuple[int, bytes, bytes]] = []
    position: cython.Py_ssize_t = 0
    properties_at: cython.Py_ssize_t
    while position < len(body):
        size, _, _, flag, body_length = _HEAD.unpack_from(body, position)
        properties_at = position + 22 + body_length
        messages.append(
            (flag, body[position + 20 : properties_at - 2], body[properties_at : position + size])
        )
        position += size
    return messages


def encode_batch(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """The body of a batch: from (flag, body, properties) of each message.

    Raises RecordTooLarge for more than 32,767 bytes of properties.
    """
    entries = list(messages)
    total: cython.Py_ssize_t = 0
    plain: cython.bint = True
    for _, body, properties in entries:
        if len(properties) > 32767:
            raise RecordTooLarge(
                f"{len(properties)} bytes of properties: {MAX_PROPERTIES_BYTES} can be stored"
            )
        total += 22 + len(body) + len(properties)
        plain = plain and type(body) is bytes and type(properties) is bytes
    if cython.compiled and plain and total <= 0x7FFFFFFF:
        encoded: bytes = _encoded(entries, total)
        return encoded
    parts: list[bytes] = []
    for flag, body, properties in entries:
        parts += (
            _HEAD.pack(_FIXED_BYTES + len(body) + len(properties), 0, 0, flag, len(body)),
            body,
            _SHORT.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


@cython.cfunc
def _encoded(entries: list, total: cython.Py_ssize_t) -> bytes:  # type: ignore[type-arg]
    """The body of a batch of so many bytes, all of it plain `bytes`. Compiled only."""
    made: bytes = new_bytes(total)
    out: Writer = writer_of_new(made)
    number: cython.int
    body: bytes
    properties: bytes
    for flag, body, properties in entries:
        number = flag
        put_u32(cython.address(out), cython.cast(cython.uint, 22 + len(body) + len(properties)))
        put_u64(cython.address(out), 0)
        put_u32(cython.address(out), cython.cast(cython.uint, number))
        put_u32(cython.address(out), cython.cast(cython.uint, len(body)))
        put_bytes(cython.address(out), body)
        put_u16(cython.address(out), cython.cast(cython.uint, len(properties)))
        put_bytes(cython.address(out), properties)
    if out.overflow or written(cython.address(out)) != total:
        raise SystemError("a batch was measured with another size than it has")
    return made
