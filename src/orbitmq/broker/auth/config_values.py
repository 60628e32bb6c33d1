"""Options of access control that are lists of request codes."""

from __future__ import annotations

import re
from typing import Protocol

from orbitmq.options import OptionError


class AuthTexts(Protocol):
    """Their texts. The class with the rows checks them by these functions, so they cannot name it."""

    @property
    def authentication_whitelist(self) -> str | None: ...
    @property
    def authorization_whitelist(self) -> str | None: ...


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
