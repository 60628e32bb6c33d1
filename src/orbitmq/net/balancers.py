"""Clients behind balancers, which say whose connection they pass on: the PROXY protocol of HAProxy, 1 and 2.

A balancer's first bytes name the client. They are believed where a setting names the balancer alone: anybody
could claim to be another host, and rules of access name hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

log = logging.getLogger(__name__)

Address: TypeAlias = tuple[str, int]
"""Host and port."""
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_TEXT = b"PROXY "
_MOST_TEXT = 107
_BINARY = b"\r\n\r\n\x00\r\nQUIT\n"
_FIXED = struct.Struct(">12sBBH")
_MOST_BINARY = 4096
_NAMED = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}
"""Source, destination and their ports, by address family: TCP over IPv4 and over IPv6."""
FIRST_BYTES_SECONDS = 10
"""A balancer that has sent nothing within this time is cut."""


class BadHeader(ValueError):
    """The first bytes are neither those of a client nor a whole header."""


def parse_networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by `;`. Raises ValueError."""
    parts = (part.strip() for part in text.split(";"))
    return tuple(ipaddress.ip_network(part) for part in parts if part)


def read_header(data: bytes) -> tuple[int, Address | None] | None:
    """The length of the header at the start, 0 without one, and the client in it; None if it is incomplete.

    Raises BadHeader.
    """
    if data[: len(_TEXT)] == _TEXT[: len(data)]:
        return _read_text(data)
    if data[: len(_BINARY)] == _BINARY[: len(data)]:
        return _read_binary(data)
    return 0, None


def _read_text(data: bytes) -> tuple[int, Address | None] | None:
    line, end, _ = data[:_MOST_TEXT].partition(b"\r\n")
    if not end:
        if len(data) >= _MOST_TEXT:
            raise BadHeader(f"a header of more than {_MOST_TEXT} bytes")
        return None
    match line.decode("latin-1").split(" "):
        case ["PROXY", "UNKNOWN", *_]:
            return len(line) + 2, None
        case ["PROXY", "TCP4" | "TCP6", source, _, port, _] if port.isascii() and port.isdigit():
            with contextlib.suppress(ValueError):
                return len(line) + 2, (str(ipaddress.ip_address(source)), int(port))
    raise BadHeader(f"a header that names nobody: {line!r}")


def _read_binary(data: bytes) -> tuple[int, Address | None] | None:
    if len(data) < _FIXED.size:
        return None
    _, version_and_command, family, length = _FIXED.unpack_from(data)
    if length > _MOST_BINARY or version_and_command not in (0x20, 0x21):
        raise BadHeader(f"version and command {version_and_command:#x} with {length} bytes")
    size = _FIXED.size + length
    if len(data) < size:
        return None
    named = _NAMED.get(family)
    if version_and_command == 0x20 or named is None:
        return size, None
    if length < named.size:
        raise BadHeader(f"{length} bytes of addresses of family {family:#x}")
    source, _, port, _ = named.unpack_from(data, _FIXED.size)
    return size, (str(ipaddress.ip_address(source)), port)


class _Introduced:
    """A transport whose peer is the client that a balancer has named."""

    def __init__(self, transport: asyncio.Transport, peer: Address) -> None:
        self._transport = transport
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else self._transport.get_extra_info(name, default)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class FromBalancer(asyncio.Protocol):
    """The first protocol of a connection on a port that balancers connect to: then `protocol` has it."""

    def __init__(self, protocol: asyncio.Protocol, balancers: Sequence[Network]) -> None:
        self._protocol = protocol
        self._balancers = balancers
        self._transport: asyncio.Transport
        self._cut: asyncio.TimerHandle | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._is_balancer():
            self._hand_over(self._transport)
            return
        loop = asyncio.get_running_loop()
        self._cut = loop.call_later(FIRST_BYTES_SECONDS, self._transport.abort)

    def _is_balancer(self) -> bool:
        peer = self._transport.get_extra_info("peername")
        if not peer:
            return False
        host = ipaddress.ip_address(peer[0].partition("%")[0])
        if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
            host = host.ipv4_mapped
        return any(host in network for network in self._balancers)

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            found = read_header(self._data)
        except BadHeader as error:
            log.warning("closing %s: %s", self._transport.get_extra_info("peername"), error)
            self._transport.abort()
            return
        if found is None:
            return
        size, client = found
        if self._cut is not None:
            self._cut.cancel()
        transport = self._transport
        if client is not None:
            transport = cast("asyncio.Transport", _Introduced(transport, client))
        self._hand_over(transport)
        if rest := self._data[size:]:
            self._protocol.data_received(rest)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        transport.set_protocol(self._protocol)
        self._protocol.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
