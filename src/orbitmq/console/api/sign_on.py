"""The two addresses of a login at an OpenID Connect provider: browsers go to both, pages ask neither."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orbitmq.console.api.session import cookie_name, session_cookie
from orbitmq.console.console import Console
from orbitmq.console.security.audit import AuditEntry
from orbitmq.console.security.single_sign_on import PENDING_SECONDS, SignedOn, SignOnFailed, SingleSignOn

LOGIN = "/api/sign-on"
CALLBACK = "/api/sign-on/callback"
"""The path of the address that the provider has to know of the console."""


def sign_on_routes(console: Console, sign_on: SingleSignOn) -> list[Route]:
    """The routes of a console with a provider."""

    async def begin(request: Request) -> Response:
        try:
            url, state = await sign_on.begin(_redirect_uri(request), request.query_params.get("to", "/"))
        except SignOnFailed as error:
            return _failed(console, request, error)
        answer = RedirectResponse(url, 303)
        # Lax: the browser comes back by a link from the provider's site, and has to bring it along.
        answer.headers["Set-Cookie"] = _state_cookie(console, request, state, PENDING_SECONDS)
        return answer

    async def finish(request: Request) -> Response:
        state = request.cookies.get(_state_name(request), "")
        try:
            user = await sign_on.finish(dict(request.query_params), state)
        except SignOnFailed as error:
            return _failed(console, request, error)
        token, _ = console.sessions.open(
            user.name,
            user.role,
            time.monotonic(),
            lifetime_seconds=sign_on.provider.session_seconds,
            external=True,
            reads_bodies=user.reads_bodies,
        )
        _write(console, request, user.name, _audit_fields(sign_on, user))
        answer = RedirectResponse(user.return_to, 303)
        answer.headers.append("Set-Cookie", session_cookie(console, request.url.port, token))
        answer.headers.append("Set-Cookie", _state_cookie(console, request, "", 0))
        return answer

    return [Route(LOGIN, begin), Route(CALLBACK, finish)]


def _failed(console: Console, request: Request, error: SignOnFailed) -> Response:
    """Back to the page of the login, which has a sentence for the code; refused logins have the reason."""
    address = request.client.host if request.client else ""
    console.refused_logins.count(time.time_ns() // 1_000_000, address, "", "sign_on", error.code, str(error))
    answer = RedirectResponse(f"/?failed={error.code}", 303)
    answer.headers["Set-Cookie"] = _state_cookie(console, request, "", 0)
    return answer


def _audit_fields(sign_on: SingleSignOn, user: SignedOn) -> dict[str, str]:
    return {
        "user": user.name,
        "role": user.role.title,
        "bodies": "yes" if user.reads_bodies else "no",
        "issuer": sign_on.provider.issuer,
        "subject": user.subject,
    }


def _write(
    console: Console,
    request: Request,
    user: str,
    after: dict[str, str],
) -> None:
    address = request.client.host if request.client else ""
    console.audit.write(
        AuditEntry(
            at_ms=time.time_ns() // 1_000_000,
            user=user,
            address=address,
            action="sign_on",
            target="",
            outcome="done",
            after=after,
        )
    )


def _redirect_uri(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}{CALLBACK}"


def _state_name(request: Request) -> str:
    return cookie_name(request.url.port).replace("session", "sign_on")


def _state_cookie(console: Console, request: Request, state: str, seconds: int) -> str:
    secure = "; Secure" if console.uses_tls else ""
    path = f"; Path={LOGIN}; HttpOnly; SameSite=Lax; Max-Age={seconds}"
    return f"{_state_name(request)}={state}{path}{secure}"
