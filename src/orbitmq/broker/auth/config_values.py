"""Options of access control whose text means something: users, credentials, lists of request codes."""

from __future__ import annotations

import re
from typing import Protocol

from orbitmq.options import OptionError
from orbitmq.protocol.bodies.auth import SessionCredentials, User
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.remoting.signing import Credentials


class AuthTexts(Protocol):
    """Their texts. The class with the rows checks them by these functions, so they cannot name it."""

    @property
    def init_authentication_user(self) -> str | None: ...
    @property
    def inner_client_authentication_credentials(self) -> str | None: ...
    @property
    def authentication_whitelist(self) -> str | None: ...
    @property
    def authorization_whitelist(self) -> str | None: ...


def first_user(settings: AuthTexts) -> Credentials | None:
    """The super user to make at the start, or None. Raises OptionError, without the secret in it."""
    text = settings.init_authentication_user
    if not (text or "").strip():
        return None
    try:
        user = User.from_json(text or "")
        return Credentials(user.username or "", user.password or "")
    except (MalformedJson, ValueError):
        raise OptionError('initAuthenticationUser has to be {"username":"...","password":"..."}') from None


def own_credentials(settings: AuthTexts) -> Credentials | None:
    """The credentials of a broker's own requests, or None. Raises OptionError, without the secret in it."""
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


def unauthenticated_codes(settings: AuthTexts) -> frozenset[int]:
    """The requests that need no signature. Raises OptionError."""
    return _codes("authenticationWhitelist", settings.authentication_whitelist)


def unauthorized_codes(settings: AuthTexts) -> frozenset[int]:
    """The requests that need no rule. Raises OptionError."""
    return _codes("authorizationWhitelist", settings.authorization_whitelist)


def _codes(name: str, text: str | None) -> frozenset[int]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    wrong = [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]
    if wrong:
        raise OptionError(f"{name}: {wrong[0]} is no request code; expected numbers with , between")
    return frozenset(map(int, parts))
