"""Credentials and encryption of a program's connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orbitmq.protocol.remoting.signing import Credentials

if TYPE_CHECKING:
    import ssl

SECRET_VARIABLE = "ORBITMQ_SECRET_KEY"
TOKEN_VARIABLE = "ORBITMQ_SECURITY_TOKEN"


@dataclass(slots=True, frozen=True)
class Access:
    """Credentials and encryption of connections."""

    credentials: Credentials | None = None
    ssl: ssl.SSLContext | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a producer, a consumer or an `Admin`."""
        given: dict[str, Any] = {"tls": self.ssl or False}
        if self.credentials is not None:
            given["access_key"] = self.credentials.access_key
            given["secret_key"] = self.credentials.secret_key
            given["security_token"] = self.credentials.security_token
        return given


def credentials_of(
    access_key: str | None, secret_key: str | None, security_token: str | None = None
) -> Credentials | None:
    """The credentials that sign requests, or None without keys. Raises ValueError for half of a pair."""
    if not access_key and not secret_key:
        return None
    return Credentials(access_key or "", secret_key or "", security_token or None)


def context_of(tls: bool | ssl.SSLContext) -> ssl.SSLContext | None:
    """The TLS context of connections: True checks certificates and names by the system's authorities."""
    if tls is True:
        from ssl import create_default_context

        return create_default_context()
    return tls or None
