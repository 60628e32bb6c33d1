"""The session of a browser; login and logout; the audit log."""

from __future__ import annotations

import asyncio
import time

import msgspec

from orbitmq import __version__
from orbitmq.console.api.endpoint import Call, Identity, endpoint
from orbitmq.console.api.problems import ApiError
from orbitmq.console.console import Console
from orbitmq.console.security.audit import AuditEntry
from orbitmq.console.security.refused_logins import RefusedLogin
from orbitmq.console.security.roles import Role


class SessionState(msgspec.Struct, rename="camel"):
    """Facts that a page has to know first."""

    wants_login: bool
    user: str | None
    role: str | None
    csrf_token: str | None
    """Goes with every change, in the header X-CSRF-Token."""
    clusters: list[str]
    version: str
    password_login: bool = True
    """Users of the console's own file may log in."""
    sign_on: str | None = None
    """The host of the OpenID Connect provider at which users may log in."""
    reads_bodies: bool = False
    """The user may read bodies of messages."""
    masked_fields: list[str] = []
    """Names of fields whose values are hidden."""


class Login(msgspec.Struct, rename="camel"):
    """Name and password."""

    user: str
    password: str


class AuditEntries(msgspec.Struct, rename="camel"):
    """Changes since the console started, newest first; the file `audit.jsonl` has all."""

    entries: list[AuditEntry]
    refused_logins: list[RefusedLogin]
    """Refused logins since the start, newest first; the file `refused-logins.jsonl` has them, too."""


@endpoint("GET", "/api/session", None)
async def get_session(call: Call[None, None]) -> SessionState:
    """The logged-in user, and the token that changes need."""
    return _state(call.console, call.who)


@endpoint("POST", "/api/login", None)
async def log_in(call: Call[None, Login]) -> SessionState:
    """Log in; the answer sets the cookie of the session."""
    console, body = call.console, call.body
    call.after = {"user": body.user[:64]}
    now = time.monotonic()
    address = call.request.client.host if call.request.client else ""
    subjects = (f"user {body.user[:64]}", f"address {address}")
    wait = max(console.login_limit.wait_seconds(one, now) for one in subjects)
    if wait > 0:
        seconds = int(wait) + 1
        raise ApiError(
            429, "TOO_MANY_LOGINS", "too many logins failed", f"Wait {seconds} s.", retry_after=seconds
        )
    for one in subjects:
        # Counted before the hash is made: tries at the same time count as well.
        console.login_limit.failed(one, now)
    async with console.hashing:
        user = await asyncio.to_thread(console.check_login, body.user, body.password)
    if user is None:
        raise ApiError(
            401,
            "WRONG_LOGIN",
            "no user has this name and password",
            "This console has no users: log in as the user of --access-key, with that user's secret."
            if console.takes_credentials
            else "Check both; an admin sets a new password with: orbitmq console set-user NAME",
        )
    for one in subjects:
        console.login_limit.succeeded(one)
    token, session = console.sessions.open(
        user.name, user.role, time.monotonic(), reads_bodies=user.reads_bodies
    )
    call.headers["Set-Cookie"] = session_cookie(console, call.request.url.port, token)
    who = Identity(user.name, user.role, address, session.csrf_token, token, user.reads_bodies)
    return _state(console, who)


@endpoint("POST", "/api/logout", Role.VIEWER)
async def log_out(call: Call[None, None]) -> None:
    """End the session."""
    if call.who is not None and call.who.session is not None:
        call.console.sessions.close(call.who.session)
    call.headers["Set-Cookie"] = session_cookie(call.console, call.request.url.port, "") + "; Max-Age=0"


@endpoint("GET", "/api/audit", Role.ADMIN, rows=("entries", "refused_logins"))
async def get_audit(call: Call[None, None]) -> AuditEntries:
    """Changes made through this console since it started."""
    return AuditEntries(call.console.audit.recent(), call.console.refused_logins.recent())


def _state(console: Console, who: Identity | None) -> SessionState:
    return SessionState(
        console.wants_login,
        who.user if who else None,
        who.role.title if who else None,
        who.csrf_token if who else None,
        list(console.clusters) if who else [],
        __version__ if who else "",
        console.takes_passwords,
        console.sign_on.provider.host if console.sign_on else None,
        who.reads_bodies if who else False,
        list(console.settings.masked_fields) if who else [],
    )


def cookie_name(port: int | None) -> str:
    """Cookies know no ports: two consoles on one machine must not log each other out."""
    return f"orbitmq_session_{port or 'default'}"


def session_cookie(console: Console, port: int | None, token: str) -> str:
    """The header that gives a browser its session."""
    secure = "; Secure" if console.uses_tls else ""
    return f"{cookie_name(port)}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"
