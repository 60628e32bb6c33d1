"""How jobs connect: who they sign as, and whether connections are encrypted. It travels to the workers."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.signing import Credentials
from orbitmq.spark.errors import BadOption


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
        """What connections are encrypted with; None: they are not. Raises BadOption for a file of no use."""
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
