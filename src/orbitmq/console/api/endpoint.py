"""Endpoints: declared by a decorator on `async (call: Call[Query, Body]) -> Answer`.

Parsing, rights, the audit log and OpenAPI follow from the declaration.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orbitmq.console.api.derived import derived
from orbitmq.console.api.download import (
    PARAMETERS,
    Download,
    download_answer,
    download_stream,
    wanted_download,
)
from orbitmq.console.api.problems import ApiError, Invalid, Problem, problem_of
from orbitmq.console.cluster import Cluster
from orbitmq.console.console import Console
from orbitmq.console.security.audit import AuditEntry
from orbitmq.console.security.roles import Role

MAX_REQUEST_BYTES = 6 << 20
"""A message of 4 MiB in base64, and what goes with it."""
BODY_SECONDS = 60.0
"""Time in which the body of a request has to come."""

SILENT = "X-Silent-Brokers"
"""Header of answers: the brokers that are not in them, because they did not answer the last look.
Addresses are percent-encoded: brokers register under any text."""

Q = TypeVar("Q")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that asks."""

    user: str
    role: Role
    address: str
    csrf_token: str
    session: str | None = None
    """The token of the session; None where no login is needed."""
    reads_bodies: bool = True


@dataclass(slots=True)
class Call(Generic[Q, B]):
    """One request, parsed."""

    console: Console
    path: Mapping[str, str]
    query: Q
    body: B
    who: Identity | None
    request: Request
    before: Any = None
    """For the audit log: what was there before the change."""
    after: Any = None
    """For the audit log: what the change made; without it the body stands there."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the answer."""

    @property
    def cluster(self) -> Cluster:
        name = self.path["cluster"]
        try:
            return self.console.clusters[name]
        except KeyError:
            known = ", ".join(self.console.clusters)
            raise ApiError(404, "NO_CLUSTER", f"no cluster is named {name}", f"There are: {known}.") from None

    @property
    def reads_bodies(self) -> bool:
        """True if the caller may read bodies of messages."""
        return self.who is not None and self.who.reads_bodies

    def may(self, role: Role) -> bool:
        return self.who is not None and self.who.role >= role


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One declaration. `role` None: also for those who have not logged in."""

    method: str
    path: str
    role: Role | None
    name: str
    summary: str
    query: type[Any]
    body: type[Any]
    answer: Any
    """The type of the answer as JSON."""
    shown: Callable[[Any], Any]
    """Makes that of what the handler gives: answers are results of `admin`, or have some in them."""
    handle: Callable[[Call[Any, Any]], Any]
    is_stream: bool
    rows: tuple[str, ...] = ()
    """Fields of the answer (of each event of a stream) that can be downloaded as lists."""

    @property
    def is_change(self) -> bool:
        """True if it stands in the audit log and needs the CSRF token."""
        return self.method != "GET"

    @property
    def is_login(self) -> bool:
        """True if anybody may try it, as often as they like: refusals are counted, and no change."""
        return self.is_change and self.role is None


ENDPOINTS: list[Endpoint] = []
"""All of them, filled by importing the modules of `orbitmq.console.api`."""

Handler = TypeVar("Handler", bound=Callable[..., Any])


def endpoint(
    method: str, path: str, role: Role | None, *, rows: tuple[str, ...] = ()
) -> Callable[[Handler], Handler]:
    """Declares an endpoint. The first line of the function's docstring is its summary.

    A handler that is an asynchronous generator answers with server-sent events. `rows` are the lists of its
    answer that `format=csv` and `format=ndjson` give as files.
    """

    def declare(function: Handler) -> Handler:
        hints = get_type_hints(function)
        query, body = get_args(hints["call"])
        answer = hints["return"]
        is_stream = get_origin(answer) is AsyncIterator
        shape, convert = derived(get_args(answer)[0] if is_stream else answer)
        ENDPOINTS.append(
            Endpoint(
                method,
                path,
                role,
                function.__name__,
                (function.__doc__ or "").partition("\n")[0],
                query,
                body,
                shape,
                convert or (lambda value: value),
                function,
                is_stream,
                rows,
            )
        )
        return function

    return declare


async def answer(
    console: Console, declared: Endpoint, request: Request, identify: Callable[[], Identity | None]
) -> Response:
    """Does one request. Errors that a caller can act on become problems; bugs are raised."""
    who = identify()
    try:
        if declared.role is not None:
            _check_role(declared.role, who)
        _check_origin(request)
        if declared.is_change and declared.role is not None:
            _check_token(request, who)
        download = wanted_download(request, declared.rows)
        call = await _parse(console, declared, request, who)
    except ApiError as error:
        return problem_response(error.problem)
    name = "-".join([*call.path.values(), download.field]) if download is not None else ""
    if declared.is_stream and download is not None:
        return await _stream_file(download, _shown(declared, call), name)
    if declared.is_stream:
        return StreamingResponse(
            _events(declared, call, identify),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
    try:
        result = await declared.handle(call)
    except Exception as error:
        problem = problem_of(error)
        code = problem.code if problem else "FAILED"
        if declared.is_login:
            _count_refused(declared, call, code, str(error))
        elif declared.is_change:
            _audit(declared, call, code, str(error))
        if problem is None:
            raise
        return problem_response(problem)
    if declared.is_change:
        _audit(declared, call, "done", None)
    if isinstance(result, Response):
        return result
    result = declared.shown(result)
    if silent := _silent_brokers(call):
        call.headers[SILENT] = silent
    if download is not None:
        return download_answer(download, result, name)
    return Response(
        msgspec.json.encode(result, enc_hook=str), media_type="application/json", headers=call.headers
    )


def _silent_brokers(call: Call[Any, Any]) -> str:
    """Addresses of brokers that an answer leaves out, for they do not answer themselves."""
    cluster = call.console.clusters.get(call.path.get("cluster", ""))
    return (
        ",".join(quote(one, safe=":[]") for one in sorted(cluster.reader.silent))
        if cluster is not None
        else ""
    )


async def _stream_file(download: Download, events: AsyncIterator[Any], name: str) -> Response:
    """The lists of a stream as a file. An error before the first event is still a problem."""
    try:
        first = await anext(events, None)
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            raise
        return problem_response(problem)
    return download_stream(download, _chained(first, events), name)


async def _shown(declared: Endpoint, call: Call[Any, Any]) -> AsyncIterator[Any]:
    """The events of a stream as they are encoded."""
    async with contextlib.aclosing(declared.handle(call)) as values:
        async for value in values:
            yield declared.shown(value)


async def _chained(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async with contextlib.aclosing(rest) as open_rest:  # type: ignore[type-var]
        if first is not None:
            yield first
        async for event in open_rest:
            yield event


def problem_response(problem: Problem) -> Response:
    """A problem as an answer."""
    headers = {"Retry-After": str(problem.retry_after_seconds)} if problem.retry_after_seconds else None
    return Response(
        msgspec.json.encode(problem), problem.status, media_type="application/problem+json", headers=headers
    )


def _check_role(role: Role, who: Identity | None) -> None:
    if who is None:
        raise ApiError(401, "LOGIN_NEEDED", "nobody is logged in", "Log in, and try again.")
    if who.role < role:
        raise ApiError(
            403,
            "ROLE_NEEDED",
            f"{who.user} is {who.role.title}, and this needs {role.title}",
            "Ask an admin.",
        )


def _check_origin(request: Request) -> None:
    """A request has to come from a page of this console, or from a program: other sites can make browsers
    send requests, too. They may not read the answer, but a search costs the cluster all the same.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if (origin is not None and origin != own) or site not in (None, "same-origin", "none"):
        raise ApiError(
            403, "OTHER_ORIGIN", "the request comes from a page of another site", "Open the console itself."
        )


def _check_token(request: Request, who: Identity | None) -> None:
    if who is not None and request.headers.get("x-csrf-token") != who.csrf_token:
        raise ApiError(
            403,
            "CSRF_TOKEN",
            "the header X-CSRF-Token is missing or not the present one",
            "Take the token from GET /api/session; a page has to be loaded again.",
        )


async def _parse(
    console: Console, declared: Endpoint, request: Request, who: Identity | None
) -> Call[Any, Any]:
    query = None
    if declared.query is not type(None):
        query = _convert(_query_values(declared, request), declared.query)
    body = None
    if declared.body is not type(None):
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise ApiError(
                415,
                "JSON_NEEDED",
                "the body is not said to be JSON",
                "Send it with Content-Type: application/json.",
            )
        body = _decode(await _read(request), declared.body)
    return Call(console, request.path_params, query, body, who, request)


def _query_values(declared: Endpoint, request: Request) -> dict[str, Any]:
    values: dict[str, Any] = {}
    fields = {one.encode_name: one for one in msgspec.structs.fields(declared.query)}
    for name in request.query_params:
        if declared.rows and name in PARAMETERS and name not in fields:
            continue
        listed = name in fields and get_origin(fields[name].type) is list
        values[name] = request.query_params.getlist(name) if listed else request.query_params[name]
    return values


async def _read(request: Request) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_REQUEST_BYTES:
        raise _too_long()
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > MAX_REQUEST_BYTES:
                    raise _too_long()
                parts.append(part)
    except TimeoutError:
        raise ApiError(
            408, "TOO_SLOW", f"the body of the request did not come within {BODY_SECONDS:.0f} s", "Try again."
        ) from None
    return b"".join(parts)


def _too_long() -> ApiError:
    return ApiError(
        413, "TOO_LONG", f"a request has {MAX_REQUEST_BYTES} bytes at most", "Send less at a time."
    )


def _decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except msgspec.DecodeError as error:
        raise ApiError(
            400, "NOT_JSON", f"the body is not JSON: {error}", "Correct it at that place."
        ) from None


def _convert(value: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: msgspec.ValidationError) -> ApiError:
    text, _, place = str(error).partition(" - at ")
    return Invalid(
        text,
        "Correct the value; GET /api/openapi.json has what is allowed.",
        field=place.strip("`").removeprefix("$."),
    )


def _audit(declared: Endpoint, call: Call[Any, Any], outcome: str, error: str | None) -> None:
    who = call.who
    call.console.audit.write(
        AuditEntry(
            at_ms=time.time_ns() // 1_000_000,
            user=who.user if who else "",
            address=call.request.client.host if call.request.client else "",
            action=declared.name,
            target="/".join(call.path.values()),
            outcome=outcome,
            before=call.before,
            after=call.after,
            error=error,
        )
    )


def _count_refused(declared: Endpoint, call: Call[Any, Any], outcome: str, error: str) -> None:
    address = call.request.client.host if call.request.client else ""
    user = str((call.after or {}).get("user", ""))
    call.console.refused_logins.count(
        time.time_ns() // 1_000_000, address, user, declared.name, outcome, error
    )


async def _events(
    declared: Endpoint, call: Call[Any, Any], identify: Callable[[], Identity | None]
) -> AsyncIterator[bytes]:
    """Values as server-sent events; an error ends them with an event that says so."""
    async with contextlib.aclosing(_shown(declared, call)) as open_values:  # type: ignore[type-var]
        try:
            async for value in open_values:
                # Streams stay open for hours: the end of a session, or the loss of a right, ends them.
                if declared.role is not None:
                    who = identify()
                    _check_role(declared.role, who)
                    if call.reads_bodies and who is not None and not who.reads_bodies:
                        raise ApiError(403, "RIGHTS_CHANGED", "your rights changed", "Load the page again.")
                yield b"data: " + msgspec.json.encode(value) + b"\n\n"
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            yield b"event: problem\ndata: " + msgspec.json.encode(problem) + b"\n\n"
