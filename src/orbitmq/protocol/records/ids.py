"""Message ids, and addresses in the form in which records hold them.

An offset message id says where a message is stored: `address | port i32 | physical offset i64` in upper-case
hex, 32 characters, or 56 with IPv6. A unique id is made by the sending client: `address | pid u16 | loader
hash i32 | milliseconds since the month began (local time) i32 | counter u16`, of the same lengths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from orbitmq.protocol.errors import Malformed

_V4_ID_CHARACTERS = 32
_V6_ID_CHARACTERS = 56
_COUNTER_END = 1 << 16
_DIGITS = "0123456789ABCDEF"


class MalformedAddress(Malformed):
    """Text or bytes that are no address with a port."""


class MalformedId(Malformed):
    """Text that is no message id."""


class HostPort(NamedTuple):
    """An address without its packing; `ip` in the standard text form of its version."""

    ip: str
    port: int


def pack_host(ip: str, port: int) -> bytes:
    """Address and port as records hold them: 8 bytes, 20 for IPv6.

    An IPv4 address in IPv6 form (`::ffff:10.0.0.1`) is packed as IPv4, as Java does; a zone (`fe80::1%eth0`)
    is left out. Raises MalformedAddress for a host name or a port outside 0..65535.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        raise MalformedAddress(f"{ip!r} is not an IP address") from None
    if not 0 <= port <= 65_535:
        raise MalformedAddress(f"{port} is not a port")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + port.to_bytes(4, "big")


def unpack_host(host: bytes | memoryview) -> HostPort:
    """The address and port in 8 or 20 bytes of a record. Raises MalformedAddress for any other length."""
    host = bytes(host)
    if len(host) not in (8, 20):
        raise MalformedAddress(f"a packed address has 8 or 20 bytes, not {len(host)}")
    return HostPort(_address_text(host[:-4]), int.from_bytes(host[-4:], "big", signed=True))


@lru_cache(maxsize=1024)
def host_text(host: bytes) -> str:
    """`10.1.2.3:40001` or `[2001:db8::1]:40001` for a packed address."""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _address_text(packed: bytes) -> str:
    return str(IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed))


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    """The id of the message stored at `physical_offset` by the broker at the packed address `store_host`."""
    return f"{_hex(store_host)}{physical_offset & 0xFFFFFFFFFFFFFFFF:016X}"


def offset_message_ids(store_host: bytes, physical_offsets: Iterable[int]) -> str:
    """The ids of several messages, as the answer to a batch lists them: with commas between."""
    host = _hex(store_host)
    return ",".join([f"{host}{offset:016X}" for offset in physical_offsets])


@lru_cache(maxsize=256)
def _hex(packed: bytes) -> str:
    return packed.hex().upper()


class OffsetMessageId(NamedTuple):
    """The place of a stored message."""

    host: bytes
    """The broker's packed address."""
    physical_offset: int

    @property
    def address(self) -> HostPort:
        return unpack_host(self.host)


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """Takes an offset message id apart. Raises MalformedId."""
    raw = _id_bytes(text)
    return OffsetMessageId(raw[:-8], int.from_bytes(raw[-8:], "big", signed=True))


def _id_bytes(text: str) -> bytes:
    if len(text) not in (_V4_ID_CHARACTERS, _V6_ID_CHARACTERS):
        raise MalformedId(
            f"a message id has {_V4_ID_CHARACTERS} or {_V6_ID_CHARACTERS} characters, not {len(text)}"
        )
    try:
        # A space is the one thing that fromhex takes and an id has not.
        raw = bytes.fromhex(text) if " " not in text else b""
    except ValueError:
        raw = b""
    if len(raw) * 2 != len(text):
        raise MalformedId(f"{text!r} is not hexadecimal")
    return raw


class UniqueId(NamedTuple):
    """The parts of a unique id."""

    ip: str
    pid: int
    loader_hash: int
    ms_of_month: int
    """Modulo 2^32; the month is not in the id."""
    counter: int


def parse_unique_id(text: str) -> UniqueId:
    """Takes a unique id apart. Raises MalformedId."""
    raw = _id_bytes(text)
    address, rest = raw[:-12], raw[-12:]
    return UniqueId(
        _address_text(address),
        int.from_bytes(rest[0:2], "big"),
        int.from_bytes(rest[2:6], "big"),
        int.from_bytes(rest[6:10], "big"),
        int.from_bytes(rest[10:12], "big"),
    )


def month_of(now_ms: int) -> tuple[int, int]:
    """Beginning of the local month of a time, and that of the next one, in ms."""
    now = datetime.fromtimestamp(now_ms / 1000)
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return round(first.timestamp() * 1000), round(following.timestamp() * 1000)


class UniqueIds:
    """Makes the ids of one sender; the caller says what time it is.

    No id comes twice while the sender lives, a clock that goes back included: the time in the ids then
    stands still, and moves by a millisecond whenever the 65,536 values of the counter are used up.
    Not for several threads at once.
    """

    __slots__ = ("_block_prefix", "_counter", "_month_end", "_month_start", "_now", "_prefix", "_time_prefix")

    def __init__(self, host: bytes, pid: int, loader_hash: int) -> None:
        """`host` is an IP address of 4 or 16 bytes, or a packed one, whose port is left out.

        `loader_hash` (32 bits) tells apart senders within one process: give a random number, where Java has
        the hash of a class loader. Of `pid` the low 16 bits count.
        """
        if len(host) in (8, 20):
            host = host[:-4]
        if len(host) not in (4, 16):
            raise MalformedAddress(f"an IP address has 4 or 16 bytes, not {len(host)}")
        self._prefix = f"{host.hex().upper()}{pid & 0xFFFF:04X}{loader_hash & 0xFFFFFFFF:08X}"
        self._counter = 0
        self._now = self._month_start = self._month_end = 0
        self._time_prefix = ""
        """All of an id but its counter, as long as `_now` stands."""
        self._block_prefix = ""
        """All of an id but its last digit: sixteen ids that follow each other share it."""

    def new(self, now_ms: int) -> str:
        """The next id, 32 or 56 characters."""
        counter = self._counter
        if now_ms > self._now or not counter & 15:
            if now_ms > self._now:
                self._set_time(now_ms)
            elif counter == 0:
                self._set_time(self._now + 1)
            self._block_prefix = f"{self._time_prefix}{counter >> 4:03X}"
        self._counter = (counter + 1) & (_COUNTER_END - 1)
        return self._block_prefix + _DIGITS[counter & 15]

    def _set_time(self, now_ms: int) -> None:
        self._now = now_ms
        if now_ms >= self._month_end:
            self._month_start, self._month_end = month_of(now_ms)
        self._time_prefix = f"{self._prefix}{now_ms - self._month_start & 0xFFFFFFFF:08X}"


def unique_id_of(name: str) -> str:
    """The unique id of a message that is known by a name: 96 bits of a hash, and no time."""
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest().upper()
    return f"{digest[:20]}00000000{digest[20:]}"
