"""What a balancer says of its client, whole and in parts."""

from __future__ import annotations

import pytest

from orbitmq.net.balancers import BadHeader, parse_networks, read_header

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
FOUR = bytes([203, 0, 113, 7, 10, 0, 0, 1]) + (4711).to_bytes(2, "big") + (8081).to_bytes(2, "big")
SIX = bytes([0x20, 1, 0xD, 0xB8, *[0] * 11, 7]) + bytes(16) + FOUR[8:]


def binary(command: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2, "big") + rest


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 8081\r\n", ("203.0.113.7", 4711)),
        (b"PROXY TCP6 2001:db8::7 ::1 4711 8081\r\n", ("2001:db8::7", 4711)),
        (b"PROXY UNKNOWN\r\n", None),
        (binary(0x21, 0x11, FOUR), ("203.0.113.7", 4711)),
        (binary(0x21, 0x11, FOUR + b"\x03\x00\x04abcd"), ("203.0.113.7", 4711)),
        (binary(0x21, 0x21, SIX), ("2001:db8::7", 4711)),
        (binary(0x20, 0x00, b""), None),
        (binary(0x21, 0x31, bytes(216)), None),
    ],
)
def test_a_header_names_a_client_wherever_it_is_cut(header: bytes, client: tuple[str, int] | None) -> None:
    for length in range(1, len(header)):
        assert read_header(header[:length]) is None
    assert read_header(header) == (len(header), client)
    assert read_header(header + b"PRI * HTTP/2.0") == (len(header), client)


@pytest.mark.parametrize("data", [b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01", b"\x00\x00\x01\x02{", b"PROXIMA"])
def test_what_a_client_begins_with_is_no_header(data: bytes) -> None:
    assert read_header(data) == (0, None)


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 203.0.113 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.1 x 2\r\n",
        b"PROXY UDP4 203.0.113.7 10.0.0.1 1 2\r\n",
        b"PROXY UNKNOWN " + b"x" * 100,
        binary(0x31, 0x11, FOUR),
        binary(0x21, 0x11, FOUR[:6]),
        binary(0x21, 0x11, bytes(5000)),
    ],
)
def test_other_headers_are_refused(data: bytes) -> None:
    with pytest.raises(BadHeader):
        read_header(data)


def test_networks_are_addresses_or_ranges() -> None:
    assert [str(one) for one in parse_networks(" 10.0.0.5; 10.1.0.0/16;::1;")] == [
        "10.0.0.5/32", "10.1.0.0/16", "::1/128",
    ]  # fmt: skip
    assert parse_networks("") == ()
    with pytest.raises(ValueError, match="host bits"):
        parse_networks("10.0.0.5/8")
