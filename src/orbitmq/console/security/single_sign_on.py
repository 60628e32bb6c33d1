"""Login at an OpenID Connect provider: authorization code with PKCE, the ID token checked by its keys.

Needs the extra `oidc`, which is imported when a provider is configured and not before.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from orbitmq.console.security.roles import Role, parse_role
from orbitmq.extras import lacking
from orbitmq.net.address import is_loopback
from orbitmq.options import OptionError

MAX_PENDING = 1000
"""Logins that were begun and not finished; the oldest ends where there are more."""
PENDING_SECONDS = 600
METADATA_SECONDS = 3600
NEW_KEYS_SECONDS = 5
"""A token by an unknown key has the keys asked for again, once in so many seconds at most."""
TIMEOUT_SECONDS = 10
LEEWAY_SECONDS = 60
"""Clocks of the provider and of this machine may differ by so much."""
MAX_NAME = 64
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key. Others, and none at all, are refused."""


class SignOnFailed(Exception):
    """A login that did not succeed. `code` is one of the table in docs/operate/console.md."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider and the roles that it gives. Raises OptionError."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    role_claim: str = "roles"
    """Claim with a text or a list of texts; a path with dots goes into objects: `realm_access.roles`."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Role by value of the claim; without any the values are the names of roles."""
    name_claim: str = "preferred_username"
    scope: str = "openid profile email"
    session_seconds: float = 3600.0
    """Time after which the provider is asked again: it may have taken the role or the user away."""
    body_readers: frozenset[str] = frozenset()
    """Values of the claim whose users may read bodies of messages; without any all users may."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if not parts.hostname or parts.query or parts.fragment or parts.scheme not in ("https", "http"):
            raise OptionError(f"{self.issuer!r} is no address of an OpenID Connect provider: https://HOST")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise OptionError(f"the provider {self.issuer} has to be https: its answers decide who is admin")
        if "openid" not in self.scope.split():
            raise OptionError("the scope of OpenID Connect has the word openid")

    @property
    def host(self) -> str:
        """Name for people."""
        return urlsplit(self.issuer).hostname or self.issuer

    def reads_bodies(self, claims: Mapping[str, Any]) -> bool:
        """True if the claim gives the right to read bodies of messages."""
        return not self.body_readers or not self.body_readers.isdisjoint(self._values(claims))

    def role_of(self, claims: Mapping[str, Any]) -> Role | None:
        """The highest role that the claim gives; None without one."""
        roles = [self._role(value) for value in self._values(claims)]
        return max((role for role in roles if role is not None), default=None)

    def _values(self, claims: Mapping[str, Any]) -> list[str]:
        found: Any = claims.get(self.role_claim)
        if found is None:
            found = claims
            for part in self.role_claim.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        values = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        return [value for value in values if isinstance(value, str)]

    def name_of(self, claims: Mapping[str, Any]) -> str:
        """The user's name in pages and in the audit log."""
        for claim in (self.name_claim, "email", "sub"):
            name = claims.get(claim)
            if isinstance(name, str) and name.strip():
                return "".join(one for one in name.strip() if one.isprintable())[:MAX_NAME]
        return "?"

    def _role(self, value: str) -> Role | None:
        if self.roles:
            return self.roles.get(value)
        try:
            return parse_role(value)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class SignedOn:
    """A user whom the provider has vouched for."""

    name: str
    role: Role
    subject: str
    """The provider's own id of the user: names may change."""
    return_to: str
    """The path of the page at which the login began."""
    reads_bodies: bool = True


@dataclass(frozen=True, slots=True)
class _Pending:
    """One login that a browser has begun: everything that its end has to fit."""

    nonce: str
    verifier: str
    redirect_uri: str
    return_to: str
    began: float


class _Metadata(msgspec.Struct):
    """The parts of a provider's description that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: list[str] = []


class SingleSignOn:
    """Logins at one provider, in one event loop. Raises OptionError where the extra is missing."""

    def __init__(self, provider: Provider) -> None:
        try:
            import authlib.integrations.httpx_client  # noqa: F401
            import joserfc.jwk  # noqa: F401
        except ModuleNotFoundError as error:
            raise OptionError(lacking("login by OpenID Connect", error.name, "console", "oidc")) from None
        self.provider = provider
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._metadata: tuple[float, _Metadata] | None = None
        self._keys: tuple[float, Any] | None = None
        self._fetching = asyncio.Lock()

    async def begin(self, redirect_uri: str, return_to: str = "/") -> tuple[str, str]:
        """The provider's page to go to, and the state that the browser has to bring back."""
        metadata = await self._describe()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        async with self._client(metadata, redirect_uri) as client:
            url, _ = client.create_authorization_url(
                metadata.authorization_endpoint, state=state, code_verifier=verifier, nonce=nonce
            )
        now = time.monotonic()
        self._pending[state] = _Pending(nonce, verifier, redirect_uri, own_path(return_to), now)
        while len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)
        return str(url), state

    async def finish(self, parameters: Mapping[str, str], state: str) -> SignedOn:
        """The user of the provider's answer. `state` is that of the cookie. Raises SignOnFailed."""
        given = parameters.get("state", "")
        # The cookie ties the answer to the browser that asked: no user is logged in by another one's link.
        own = bool(given) and secrets.compare_digest(given.encode(), state.encode())
        pending = self._pending.pop(given, None) if own else None
        if pending is None or time.monotonic() - pending.began > PENDING_SECONDS:
            raise SignOnFailed("SIGN_ON_STATE", "the answer belongs to no login that this browser has begun")
        if refused := parameters.get("error"):
            text = parameters.get("error_description", "")
            raise SignOnFailed("SIGN_ON_REFUSED", f"the provider refused: {refused} {text}".strip()[:300])
        metadata = await self._describe()
        if parameters.get("iss", metadata.issuer) != metadata.issuer:
            raise SignOnFailed("SIGN_ON_TOKEN", "the answer is of another provider")
        claims = await self._redeem(metadata, parameters.get("code", ""), pending)
        role = self.provider.role_of(claims)
        name = self.provider.name_of(claims)
        if role is None:
            raise SignOnFailed(
                "SIGN_ON_NO_ROLE",
                f"the claim {self.provider.role_claim} of {name} gives no role of the console",
            )
        return SignedOn(name, role, str(claims["sub"]), pending.return_to, self.provider.reads_bodies(claims))

    async def _redeem(self, metadata: _Metadata, code: str, pending: _Pending) -> dict[str, Any]:
        """Claims of the token for a code, and of the user's page where the token gives no role."""
        from authlib.integrations.base_client import OAuthError
        from httpx2 import HTTPError

        if not code:
            raise SignOnFailed("SIGN_ON_TOKEN", "the answer has no code")
        async with self._client(metadata, pending.redirect_uri) as client:
            try:
                token = await client.fetch_token(
                    metadata.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=pending.verifier,
                )
            except HTTPError as error:
                raise _unreachable(self.provider, error) from None
            except (OAuthError, ValueError) as error:
                raise SignOnFailed("SIGN_ON_TOKEN", f"the provider gave no token: {error}"[:300]) from None
            claims = await self._check(token, pending.nonce)
            if self.provider.role_of(claims) is None and metadata.userinfo_endpoint:
                more = await self._user_info(client, metadata.userinfo_endpoint)
                if more.get("sub") == claims["sub"]:
                    claims = {**more, **claims}
        return claims

    async def _user_info(self, client: Any, address: str) -> dict[str, Any]:
        from authlib.integrations.base_client import OAuthError
        from httpx2 import HTTPError

        try:
            answer = await client.get(address)
            value = msgspec.json.decode(answer.content) if answer.status_code == 200 else {}
        except HTTPError as error:
            raise _unreachable(self.provider, error) from None
        except (OAuthError, msgspec.DecodeError):
            return {}
        return value if isinstance(value, dict) else {}

    async def _check(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """The claims of the ID token, if it is of this provider, for this console, and for this login."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError

        text = token.get("id_token")
        if not isinstance(text, str):
            raise SignOnFailed("SIGN_ON_TOKEN", "the provider's answer has no ID token")
        try:
            try:
                decoded = jwt.decode(text, await self._key_set(), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError):
                # The provider may have new keys since then.
                decoded = jwt.decode(text, await self._key_set(anew=True), algorithms=list(ALGORITHMS))
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": self.provider.issuer},
                    "aud": {"essential": True, "value": self.provider.client_id},
                    "nonce": {"essential": True, "value": nonce},
                },
                {
                    "nonce": nonce,
                    "client_id": self.provider.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=LEEWAY_SECONDS)
        except (JoseError, ValueError, TypeError) as error:
            raise SignOnFailed("SIGN_ON_TOKEN", f"the ID token is not valid: {error}"[:300]) from None
        return dict(claims)

    async def _describe(self) -> _Metadata:
        async with self._fetching:
            now = time.monotonic()
            if self._metadata is not None and now - self._metadata[0] < METADATA_SECONDS:
                return self._metadata[1]
            address = f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration"
            try:
                found = msgspec.json.decode(await self._fetch(address), type=_Metadata)
            except msgspec.DecodeError as error:
                raise SignOnFailed(
                    "SIGN_ON_UNREACHABLE", f"{address} does not describe a provider: {error}"
                ) from None
            if found.issuer != self.provider.issuer:
                raise SignOnFailed(
                    "SIGN_ON_UNREACHABLE",
                    f"the provider calls itself {found.issuer}, not {self.provider.issuer}: "
                    "--oidc-issuer has to be the same, to the letter",
                )
            self._metadata = (now, found)
            return found

    async def _key_set(self, *, anew: bool = False) -> Any:
        from joserfc.jwk import KeySet

        metadata = await self._describe()
        async with self._fetching:
            now = time.monotonic()
            kept = 0.0 if self._keys is None else now - self._keys[0]
            if self._keys is not None and kept < (NEW_KEYS_SECONDS if anew else METADATA_SECONDS):
                return self._keys[1]
            value = msgspec.json.decode(await self._fetch(metadata.jwks_uri))
            keys = KeySet.import_key_set(value)
            self._keys = (now, keys)
            return keys

    async def _fetch(self, address: str) -> bytes:
        from httpx2 import AsyncClient, HTTPError

        try:
            async with AsyncClient(timeout=TIMEOUT_SECONDS) as client:
                answer = await client.get(address)
                answer.raise_for_status()
        except HTTPError as error:
            raise _unreachable(self.provider, error) from None
        return bytes(answer.content)

    def _client(self, metadata: _Metadata, redirect_uri: str) -> Any:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        methods = metadata.token_endpoint_auth_methods_supported
        basic = not methods or "client_secret_basic" in methods
        return AsyncOAuth2Client(
            self.provider.client_id,
            self.provider.client_secret,
            token_endpoint_auth_method="client_secret_basic" if basic else "client_secret_post",
            scope=self.provider.scope,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=TIMEOUT_SECONDS,
            leeway=0,  # tokens are used at once, and never renewed
        )


def own_path(text: str) -> str:
    """A path of this console's pages; `/` for anything else: no link leads elsewhere by way of a login."""
    is_own = text.startswith("/") and not text.startswith(("//", "/api/")) and "\\" not in text
    return text if is_own and text.isascii() and text.isprintable() and len(text) <= 2000 else "/"


def _unreachable(provider: Provider, error: Exception) -> SignOnFailed:
    reason = str(error) or type(error).__name__
    return SignOnFailed("SIGN_ON_UNREACHABLE", f"{provider.host} cannot be asked: {reason}"[:300])
