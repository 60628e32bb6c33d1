"""Errors between two peers before a reply is read."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence

from orbitmq.net.strangers import PLAIN_PORT
from orbitmq.protocol.errors import OrbitError


class NetError(OrbitError):
    """The network, or the other side's handling of it, failed."""


class ConnectFailed(NetError):
    """No connection to `address` could be made."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address


class ConnectionLost(NetError):
    """The connection ended before the reply came. The request may or may not have been carried out."""

    def __init__(self, address: str, reason: str = "closed by peer") -> None:
        super().__init__(f"connection to {address} lost: {reason}")
        self.address = address


class CallTimeout(NetError):
    """No reply within the time allowed. The request may or may not have been carried out."""

    def __init__(self, address: str, request: str, timeout_ms: float) -> None:
        super().__init__(f"no reply from {address} to {request} within {timeout_ms:.0f} ms")
        self.address = address


class NoNameServer(NetError):
    """None of the name servers answered. `failures` has the error of each, in the order asked."""

    code = 10004
    """The number of Java's MQClientException for it."""

    def __init__(self, failures: Sequence[NetError]) -> None:
        super().__init__(f"no name server answers: {'; '.join(map(str, failures)) or 'none is set'}")
        self.failures = tuple(failures)


class Closed(NetError):
    """The caller has closed this pool or connection; nothing is sent any more."""


class BadAddress(NetError, ValueError):
    """An address that is not `host:port`."""


_SIGNS_OF_PLAIN = ("WRONG_VERSION", "RECORD_LAYER", "PACKET_LENGTH", "HTTP", "EOF")


def why_not_connected(error: OSError, *, is_tls: bool = False) -> str:
    """The reason of a failed connect, in words for a person."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        advice = PLAIN_PORT if any(sign in reason for sign in _SIGNS_OF_PLAIN) else ""
        return f"no TLS connection: {reason.replace('_', ' ').lower()}{advice}"
    if isinstance(error, ConnectionResetError) and is_tls:
        return f"no TLS connection: closed by peer{PLAIN_PORT}"
    if isinstance(error, socket.gaierror):
        return f"the host is not known: {error.strerror or error}"  # its number is none of the system's
    # asyncio's own words are "Connect call failed (...)": the system's say why.
    return os.strerror(error.errno) if error.errno else str(error)
