"""Addresses as RocketMQ writes them: `host:port`, several joined by `;`; an IPv6 host in brackets."""

from __future__ import annotations

from orbitmq.net.errors import BadAddress


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises BadAddress."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadAddress(f"{text!r} is not an address of the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_addresses(text: str) -> list[str]:
    """The addresses of a `;` or `,` separated list, in order, each checked. Raises BadAddress."""
    addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not addresses:
        raise BadAddress("no address given")
    for address in addresses:
        parse_address(address)
    return addresses
