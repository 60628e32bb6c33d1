"""The console as an ASGI application: the API, the files for browsers, and one page for all views."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orbitmq.console.api import (  # noqa: F401 (they declare endpoints)
    access,
    cluster,
    dead_letters,
    group_settings,
    groups,
    looking,
    messages,
    newest,
    overview,
    scheduled,
    schemas,
    servers,
    session,
    topics,
    waiting,
)
from orbitmq.console.api.endpoint import ENDPOINTS, Endpoint, Identity, answer, problem_response
from orbitmq.console.api.openapi import describe
from orbitmq.console.api.problems import Problem
from orbitmq.console.api.session import cookie_name
from orbitmq.console.api.sign_on import sign_on_routes
from orbitmq.console.assets import Assets
from orbitmq.console.console import Console
from orbitmq.console.security.guard import BrowserGuard
from orbitmq.console.security.roles import Role

log = logging.getLogger(__name__)
STATIC = Path(str(resources.files("orbitmq.console"))) / "static"


def create_app(console: Console) -> Starlette:
    """The application over a console that is started."""
    description = msgspec.json.encode(describe(ENDPOINTS))

    async def openapi(request: Request) -> Response:
        return Response(description, media_type="application/json")

    async def unknown(request: Request) -> Response:
        return problem_response(
            Problem(
                404,
                "NO_ENDPOINT",
                f"nothing is at {request.url.path}",
                "GET /api/openapi.json lists everything.",
            )
        )

    assets = Assets(STATIC)
    routes = [
        Route("/api/openapi.json", openapi),
        *(sign_on_routes(console, console.sign_on) if console.sign_on else []),
        *(Route(one.path, _serve(console, one), methods=[one.method]) for one in ENDPOINTS),
        Route("/api/{rest:path}", unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        Route("/static/{path:path}", assets.file),
        Route("/{rest:path}", assets.page),
    ]
    guard = Middleware(BrowserGuard, loopback=console.settings.is_loopback, tls=console.uses_tls)
    return Starlette(routes=routes, middleware=[guard])


def identify(console: Console, request: Request) -> Identity | None:
    """The user that asks: the user of the session; on a console without users anybody is admin."""
    address = request.client.host if request.client else ""
    if not console.wants_login:
        return Identity("local", Role.ADMIN, address, console.open_csrf_token)
    token = request.cookies.get(cookie_name(request.url.port), "")
    found = console.sessions.find(token, time.monotonic())
    if found is None:
        return None
    if found.external:
        return Identity(found.user, found.role, address, found.csrf_token, token, found.reads_bodies)
    user = console.find_user(found.user)
    if user is None:
        return None
    # The file of users may have changed since the login: the rights are those that stand there now.
    return Identity(user.name, user.role, address, found.csrf_token, token, user.reads_bodies)


def _serve(console: Console, declared: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            return await answer(console, declared, request, lambda: identify(console, request))
        except Exception:
            number = secrets.token_hex(4)
            log.exception("fault %s in %s %s", number, declared.method, request.url.path)
            return problem_response(
                Problem(
                    500,
                    "FAULT",
                    "the console has a fault, and could not do this",
                    f"Its log has the reason under the number {number}: please report it.",
                )
            )

    return serve
