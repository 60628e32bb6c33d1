"""Connections of jobs: credentials and encryption. The settings travel to the workers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from orbitmq.access import credentials_of
from orbitmq.net.address import default_namesrv, parse_addresses
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import BadAddress
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.values import boolean


@dataclass(slots=True, frozen=True)
class Connecting:
    """`connect` opens a connection to `host:port`. The files it names have to be on every worker."""

    credentials: Credentials | None = None
    tls: bool = False
    tls_ca: str | None = None

    def connect(self, address: str) -> BlockingConnection:
        """Raises BadOption for a file of no use, ConnectFailed."""
        return BlockingConnection(address, ssl=self.ssl_context(), credentials=self.credentials)

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context of connections; None without TLS. Raises BadOption for an unusable file."""
        return _context(self.tls_ca) if self.tls or self.tls_ca else None


PLAIN = Connecting()


@lru_cache(maxsize=8)
def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise BadOption(f"tlsCa {ca} holds no certificate: {error.reason or error}") from None
    except OSError as error:
        raise BadOption(f"tlsCa {ca}: {error.strerror}") from None


def namesrv_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """The name servers of the option `namesrv`, or those of the environment. Raises BadOption."""
    try:
        return tuple(parse_addresses(values.get("namesrv") or default_namesrv()))
    except BadAddress as error:
        raise BadOption(f"namesrv: {error}") from None


def connecting_of(values: Mapping[str, str]) -> Connecting:
    """The settings in the options accessKey, secretKey, securityToken, tls and tlsCa. Raises BadOption."""
    try:
        credentials = credentials_of(
            values.get("accessKey"), values.get("secretKey"), values.get("securityToken")
        )
    except ValueError:
        raise BadOption("accessKey and secretKey go together: set both, or neither") from None
    return Connecting(credentials, boolean(values, "tls", default=False), values.get("tlsCa") or None)
