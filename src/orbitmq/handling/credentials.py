"""Credentials in the options of a server: its first super user, and those that brokers sign with."""

from __future__ import annotations

from typing import Protocol

from orbitmq.options import OptionError
from orbitmq.protocol.bodies.auth import SessionCredentials, User
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.remoting.signing import Credentials


class OwnCredentials(Protocol):
    """The text of a server's own credentials."""

    @property
    def inner_client_authentication_credentials(self) -> str | None: ...


class CredentialTexts(OwnCredentials, Protocol):
    """Their texts. The classes with the rows check them by these functions, so they cannot be named here."""

    @property
    def init_authentication_user(self) -> str | None: ...


def first_user(settings: CredentialTexts) -> Credentials | None:
    """The super user to make at the start, or None. Raises OptionError, without the secret in it."""
    text = settings.init_authentication_user
    if not (text or "").strip():
        return None
    try:
        user = User.from_json(text or "")
        return Credentials(user.username or "", user.password or "")
    except (MalformedJson, ValueError):
        raise OptionError('initAuthenticationUser has to be {"username":"...","password":"..."}') from None


def own_credentials(settings: OwnCredentials) -> Credentials | None:
    """The credentials of a server's own requests, or None. Raises OptionError, without the secret in it."""
    text = settings.inner_client_authentication_credentials
    if not (text or "").strip():
        return None
    try:
        given = SessionCredentials.from_json(text or "")
        return Credentials(given.access_key or "", given.secret_key or "", given.security_token)
    except (MalformedJson, ValueError):
        raise OptionError(
            'innerClientAuthenticationCredentials has to be {"accessKey":"...","secretKey":"..."}'
        ) from None
