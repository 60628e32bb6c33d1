"""Addresses as RocketMQ writes them: `host:port`, several joined by `;`; an IPv6 host in brackets."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence

from orbitmq.net.errors import BadAddress

NAMESRV_VARIABLE = "NAMESRV_ADDR"
"""The variable of the environment in which RocketMQ's clients and tools look for name servers."""
DEFAULT_NAMESRV = "127.0.0.1:9876"
_HOST = re.compile(r"[^\s/@]+")


def default_namesrv() -> str:
    """The name servers where nothing else is said: the environment's, or this machine's."""
    return os.environ.get(NAMESRV_VARIABLE) or DEFAULT_NAMESRV


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises BadAddress."""
    if "://" in text:
        raise BadAddress(f"{text!r} is a URL: an address is host:port, without {text.partition('://')[0]}://")
    host, colon, port = text.strip().rpartition(":")
    if (
        not _HOST.fullmatch(host)
        or not colon
        or not host
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 65536
    ):
        raise BadAddress(f"{text!r} is not an address of the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a host of this name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_addresses(text: str | Sequence[str]) -> list[str]:
    """The addresses of a `;` or `,` separated text, or a list of such, in order, each checked.

    Raises BadAddress.
    """
    listed = text if isinstance(text, str) else ";".join(text)
    addresses = [part.strip() for part in listed.replace(",", ";").split(";") if part.strip()]
    if not addresses:
        raise BadAddress("no address given")
    for address in addresses:
        parse_address(address)
    return addresses
