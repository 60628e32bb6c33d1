"""An OpenID Connect provider on the loopback that signs with real keys, and that can be made to lie."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from orbitmq.console.server import HttpServer, listen

CLIENT_ID, SECRET = "the-console", "a secret of the console"


@dataclass
class SignOnProvider:
    """Logs everybody in as `claims` say. Fields that are set make it answer wrongly."""

    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "ann"})
    user_info: dict[str, Any] = field(default_factory=dict)
    lies: dict[str, Any] = field(default_factory=dict)
    """Claims of ID tokens that stand instead of the right ones; None leaves one out."""
    refuses: str = ""
    """The error with which browsers are sent back."""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first"}))
    signing_key: RSAKey | None = None
    """Signs instead of `key`, which stays the published one."""
    forges: str = ""
    """`HS256`: signed with the public key, which everybody knows, as a secret; `none`: not signed."""
    issuer: str = ""
    token_requests: list[dict[str, str]] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        listening = listen("127.0.0.1", 0)
        self.issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
        routes = [
            Route("/.well-known/openid-configuration", self._describe),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/user", self._user),
            Route("/keys", self._keys),
        ]
        self._server = HttpServer(Starlette(routes=routes))
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(120)

    async def _describe(self, _: Request) -> Response:
        names = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "jwks_uri": "keys",
            "userinfo_endpoint": "user",
        }
        addresses = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        return JSONResponse({"issuer": self.issuer, **addresses})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert asked["code_challenge_method"] == "S256"
        if self.refuses:
            back = {"state": asked["state"], "error": self.refuses, "error_description": "not today"}
        else:
            code = f"code-{len(self._codes)}"
            self._codes[code] = asked
            back = {"state": asked["state"], "code": code}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def _token(self, request: Request) -> Response:
        body = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.token_requests.append(body)
        basic = base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
        asked = self._codes.pop(body.get("code", ""), None)
        digest = hashlib.sha256(body.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        right = (
            request.headers.get("authorization") == f"Basic {basic}"
            and asked is not None
            and asked["code_challenge"] == challenge
            and asked["redirect_uri"] == body.get("redirect_uri")
        )
        if not right or asked is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
            **self.lies,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid}
        signed = jwt.encode(header, claims, self.signing_key or self.key)
        if self.forges:
            signed = _forged(self.forges, self.key, claims)
        return JSONResponse(
            {"access_token": "at", "token_type": "Bearer", "expires_in": 60, "id_token": signed}
        )

    async def _user(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer at"
        return JSONResponse(self.user_info)

    async def _keys(self, _: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))


def _forged(algorithm: str, key: RSAKey, claims: dict[str, Any]) -> str:
    head = {"alg": algorithm, "kid": key.kid}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    if algorithm == "none":
        return f"{signed}."
    digest = hmac.new(key.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{_encoded(digest)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
