"""The HTTP API as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orbitmq.client import IllegalMessage, IllegalName
from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.http.actions import Actions, NoOutcome
from orbitmq.delay_service.http.metrics import exposition
from orbitmq.delay_service.http.openapi import description
from orbitmq.delay_service.http.view import MOST, Filter, as_json, find_message, list_messages, read_body
from orbitmq.delay_service.rules.intake import queue_of
from orbitmq.delay_service.rules.lanes import PREFIX
from orbitmq.delay_service.rules.times import parse_time, rfc_3339
from orbitmq.delay_service.store.keys import HOUR_MS, LAST_DUE
from orbitmq.protocol.errors import OrbitError

if TYPE_CHECKING:
    from orbitmq.delay_service.engine import Engine
    from orbitmq.delay_service.rules.intake import Outcome
    from orbitmq.delay_service.service import Service

MAX_BODY_BYTES = 6 << 20
TEXTS = (
    "at",
    "after",
    "every",
    "factor",
    "times",
    "until",
    "cron",
    "zone",
    "catch_up",
    "expires",
    "reply",
    "owner",
)
"""Fields of a schedule that are control properties of the same names."""
STATUS = {"scheduled": 201, "refused": 422, "unknown": 404, "too-late": 409}
MOST_AT_ONCE = 10_000
"""Messages that one action by filter changes."""
ACTIONS_UNDER_WAY = 200
"""Actions of one filter that wait for their outcomes at the same time."""
MOST_STEPS = 10
"""Steps of one list, after which its page is short."""
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail

    def response(self) -> Response:
        body = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else None
        return JSONResponse(body, self.status, headers, "application/problem+json")


Handler = Callable[[Request], Awaitable[Response]]
Listed = list[dict[str, Any]]


def create_app(delay: Service, actions: Actions) -> Starlette:
    """The application of a service."""
    api = Api(delay, actions)
    open_to_all = [
        Route("/health/live", api.live),
        Route("/health/ready", api.is_ready),
        Route("/openapi.json", api.describe),
    ]
    guarded: list[tuple[str, Handler, str]] = [
        ("/metrics", api.metrics, "GET"),
        ("/v1/stats", api.stats, "GET"),
        ("/v1/calendar", api.calendar, "GET"),
        ("/v1/messages", api.list, "GET"),
        ("/v1/messages", api.schedule, "POST"),
        ("/v1/messages/{cluster}/{name:path}", api.show, "GET"),
        ("/v1/messages/{cluster}/{name:path}", api.cancel, "DELETE"),
        ("/v1/messages/{cluster}/{name:path}", api.move, "PATCH"),
        ("/v1/cancel", api.cancel_many, "POST"),
        ("/v1/move", api.move_many, "POST"),
        ("/v1/backup", api.backup, "POST"),
    ]
    return Starlette(routes=[*open_to_all, *(Route(p, api.guard(h), methods=[m]) for p, h, m in guarded)])


class Api:
    """The endpoints."""

    def __init__(self, delay: Service, actions: Actions) -> None:
        self._delay = delay
        self._actions = actions
        self._tokens = {token.encode(): owner for token, owner in delay.settings.tokens.items()}

    def guard(self, handler: Handler) -> Handler:
        """The handler for callers with the token; errors become answers."""

        async def guarded(request: Request) -> Response:
            try:
                self._check_caller(request)
                return await handler(request)
            except Problem as problem:
                return problem.response()
            except (NotSchedulable, IllegalMessage, IllegalName) as error:
                return Problem(422, "NOT_SCHEDULABLE", str(error)).response()
            except NoOutcome as error:
                return Problem(504, "NO_OUTCOME_YET", str(error)).response()
            except OrbitError as error:
                return Problem(502, "CLUSTER_FAILED", str(error)).response()
            except ClientDisconnect:
                return Response(status_code=499)

        return guarded

    def _check_caller(self, request: Request) -> None:
        request.state.owner = ""
        if self._tokens:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            given = token.strip().encode() if scheme.lower() == "bearer" else b""
            owners = [owner for one, owner in self._tokens.items() if hmac.compare_digest(given, one)]
            if not owners:
                raise Problem(401, "NO_TOKEN", "send `Authorization: Bearer TOKEN`")
            request.state.owner = owners[0]
            return
        # Without a token this is the loopback: a page of a browser must not reach it by another name.
        host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
        if host.strip("[]").lower() not in ("127.0.0.1", "::1", "localhost"):
            raise Problem(403, "WRONG_HOST", "without a token the API is for the loopback only")
        if request.method != "GET" and "application/json" not in request.headers.get("content-type", ""):
            raise Problem(415, "NOT_JSON", "send Content-Type: application/json")

    @property
    def _engine(self) -> Engine:
        engine = self._delay.engine
        if engine is None:
            raise Problem(503, "NOT_OPEN", self._delay.problem or "the store is not open")
        self._actions.listen_to(engine.intake)
        return engine

    async def live(self, request: Request) -> Response:
        return JSONResponse({"status": "UP"})

    async def is_ready(self, request: Request) -> Response:
        """Every source has been read."""
        sources = {
            state.name: {"read": state.is_read, "problem": state.problem} for state in self._delay.states
        }
        ready = self._delay.is_ready
        body = {"status": "UP" if ready else "DOWN", "problem": self._delay.problem, "sources": sources}
        return JSONResponse(body, 200 if ready else 503)

    async def describe(self, request: Request) -> Response:
        return JSONResponse(description(bool(self._tokens)))

    async def metrics(self, request: Request) -> Response:
        engine = self._engine
        lost = {state.name: state.lost for state in self._delay.states if state.lost}
        counts = engine.intake.counts, engine.delivery.counts
        text = exposition(
            engine.store, *counts, lost, engine.clock_jumps, engine.now(), self._delay.thrift_counts
        )
        return Response(text, media_type=TEXT_TYPE)

    async def stats(self, request: Request) -> Response:
        engine = self._engine
        counts = engine.delivery.counts
        return JSONResponse(
            {
                "pending": engine.store.pending_count,
                "store_bytes": engine.store.size_bytes,
                "now": engine.now(),
                "role": self._role(engine),
                "holder": "" if self._delay.lease is None else self._delay.lease.holder,
                "orders": dict(engine.intake.counts.orders),
                "delivered": sum(counts.sent.values()),
                "late": sum(counts.late.values()),
                "dead_letters": sum(counts.dead.values()),
                "targets": {
                    str(lane.target): {
                        "pending": sum(engine.store.counts.get(lane.number, {}).values()),
                        "delivered": counts.sent[str(lane.target)],
                        "problem": lane.problem,
                    }
                    for lane in list(engine.lanes)[:MOST]
                },
            }
        )

    def _role(self, engine: Engine) -> str:
        if engine.turn is None:
            return "alone"
        return "holder" if engine.turn.is_held else "follower"

    async def calendar(self, request: Request) -> Response:
        """Numbers of pending messages by target and due hour."""
        store = self._engine.store
        topic = request.query_params.get("topic", "")
        targets = {}
        for number, hours in list(store.counts.items()):
            target = store.text(number).removeprefix(PREFIX)
            if topic and topic not in (target, target.partition("/")[2]):
                continue
            targets[target] = [[hour * HOUR_MS, count] for hour, count in sorted(hours.items())[:MOST]]
            if len(targets) >= MOST:
                break
        return JSONResponse({"targets": targets})

    async def list(self, request: Request) -> Response:
        """Messages by topic, time and name."""
        query = dict(request.query_params)
        limit = _number(query.pop("limit", "100"), "limit", MOST)
        cursor = query.pop("cursor", "")
        messages, cursor = await self._listed(read_filter(query), limit, cursor, MOST_STEPS)
        return JSONResponse({"messages": messages, "cursor": cursor})

    async def _listed(
        self, wanted: Filter, limit: int, cursor: str = "", steps: int | None = None
    ) -> tuple[Listed, str]:
        """Messages of a filter, and the cursor of those that follow. Deliveries run between its steps."""
        found: Listed = []
        while True:
            store = self._engine.store
            page = list_messages(store, wanted, limit - len(found), cursor)
            found += [as_json(store, key, pending) for key, pending in page.messages]
            cursor = page.cursor
            steps = None if steps is None else steps - 1
            if not cursor or len(found) >= limit or steps == 0:
                return found, cursor
            await asyncio.sleep(0)

    async def show(self, request: Request) -> Response:
        store = self._engine.store
        cluster, name = request.path_params["cluster"], request.path_params["name"]
        found = find_message(store, cluster, name)
        if found is None:
            raise Problem(404, "UNKNOWN", f"no message of the name {name!r} is pending")
        return JSONResponse(as_json(store, *found, whole=True))

    async def schedule(self, request: Request) -> Response:
        _ = self._engine
        given = await _read_json(request)
        control = {}
        for name in TEXTS:
            if given.get(name) is not None:
                control["delay." + name.replace("_", "-")] = _text(given, name)
        if given.get("id") is not None:
            control["delay.id"] = _text(given, "id")
        control["delay.topic"] = _text(given, "target")
        if owner := _owner(request, control.get("delay.owner", "")):
            control["delay.owner"] = owner
        properties = given.get("properties") or {}
        if not isinstance(properties, dict) or not all(isinstance(v, str) for v in properties.values()):
            raise NotSchedulable("properties: an object of texts is needed")
        own = dict(properties)
        for field, name in (("key", "KEYS"), ("tags", "TAGS")):
            if given.get(field) is not None:
                own[name] = _text(given, field)
        if control_of_user := [name for name in own if name.startswith("delay.")]:
            raise NotSchedulable(f"properties: {control_of_user[0]} belongs to the service")
        cluster = _text(given, "cluster") if "cluster" in given else next(iter(self._delay.clusters))
        outcome = await self._actions.carry_out(cluster, control, read_body(given), own)
        return _answer(outcome, cluster)

    async def cancel(self, request: Request) -> Response:
        _ = self._engine
        cluster, name = request.path_params["cluster"], request.path_params["name"]
        owner = _owner(request, request.query_params.get("owner", ""))
        return _answer(await self._cancel(cluster, name, owner), cluster)

    async def _cancel(self, cluster: str, name: str, owner: str = "") -> Outcome:
        control = {"delay.action": "cancel", "delay.id": name}
        if owner:
            control["delay.owner"] = owner
        queue = queue_of(self._engine.store, cluster, name)
        return await self._actions.carry_out(cluster, control, b"c", {}, queue)

    async def move(self, request: Request) -> Response:
        """A message is to be delivered at another time."""
        _ = self._engine
        cluster, name = request.path_params["cluster"], request.path_params["name"]
        given = await _read_owned(request)
        return _answer(await self._move(cluster, name, given), cluster)

    async def _move(self, cluster: str, name: str, given: dict[str, Any]) -> Outcome:
        control = {"delay.action": "move", "delay.id": name}
        for field in ("at", "after", "owner"):
            if given.get(field) is not None:
                control[f"delay.{field}"] = _text(given, field)
        queue = queue_of(self._engine.store, cluster, name)
        return await self._actions.carry_out(cluster, control, b"m", {}, queue)

    async def cancel_many(self, request: Request) -> Response:
        """Messages of a filter are not to be delivered."""
        given = await _read_owned(request)
        owner = str(given.get("owner") or "")
        return await self._many(given, lambda cluster, name: self._cancel(cluster, name, owner))

    async def move_many(self, request: Request) -> Response:
        """Messages of a filter are to be delivered at another time."""
        given = await _read_owned(request)
        if ("at" in given) == ("after" in given):
            raise NotSchedulable("one of at and after is needed")
        return await self._many(given, lambda cluster, name: self._move(cluster, name, given))

    async def backup(self, request: Request) -> Response:
        """A copy of the store beside it."""
        if request.state.owner:
            raise Problem(403, "OPERATORS_ONLY", "a backup takes the operators' token")
        engine = self._engine
        folder, time = await engine.backup()
        return JSONResponse({"folder": str(folder), "time": time, "time_at": rfc_3339(time)}, 201)

    async def _many(self, given: dict[str, Any], act: Callable[[str, str], Awaitable[Outcome]]) -> Response:
        wanted = given.get("filter")
        if not isinstance(wanted, dict) or not wanted:
            raise NotSchedulable("filter: an object with topic, cluster, from, to or prefix is needed")
        filter = read_filter({k: str(v) for k, v in wanted.items()})
        found, more = await self._listed(filter, MOST_AT_ONCE)
        if given.get("dry_run", True) is not False:
            return JSONResponse(
                {"dry_run": True, "count": len(found), "messages": found[:100], "more": bool(more)}
            )
        outcomes: Counter[str] = Counter()
        for begin in range(0, len(found), ACTIONS_UNDER_WAY):
            part = found[begin : begin + ACTIONS_UNDER_WAY]
            done = await asyncio.gather(*(act(one["cluster"], one["id"]) for one in part))
            outcomes.update(outcome.word for outcome in done)
        return JSONResponse({"dry_run": False, "count": len(found), "outcomes": outcomes, "more": bool(more)})


def read_filter(query: dict[str, str]) -> Filter:
    """A filter of texts. Raises NotSchedulable."""
    unknown = query.keys() - {"topic", "cluster", "from", "to", "prefix"}
    if unknown:
        raise NotSchedulable(f"{sorted(unknown)[0]}: a filter has topic, cluster, from, to and prefix")
    since = parse_time("from", query["from"]) if "from" in query else 0
    until = parse_time("to", query["to"]) if "to" in query else LAST_DUE
    return Filter(query.get("topic", ""), query.get("cluster", ""), since, until, query.get("prefix", ""))


def _number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
        raise NotSchedulable(f"{name}: a number from 1 to {most} is needed")
    return int(text)


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise NotSchedulable(f"{name}: a text is needed")
    return str(value)


async def _read_json(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise Problem(413, "TOO_LARGE", f"a request has {MAX_BODY_BYTES} bytes at most")
    try:
        found = msgspec.json.decode(bytes(data) or b"{}")  # texts that UTF-8 cannot have are refused
    except (ValueError, RecursionError):
        raise Problem(400, "NOT_JSON", "the body is no JSON") from None
    if not isinstance(found, dict):
        raise Problem(400, "NOT_JSON", "the body is no JSON object")
    return found


async def _read_owned(request: Request) -> dict[str, Any]:
    """The body, with the owner that the caller's token names."""
    given = await _read_json(request)
    if owner := _owner(request, str(given.get("owner") or "")):
        given["owner"] = owner
    return given


def _owner(request: Request, given: str) -> str:
    """The owner whose names are meant: the token's, or for operators the one that is given."""
    own: str = request.state.owner
    if own and given not in ("", own):
        raise Problem(403, "ANOTHER_OWNER", f"this token is of the owner {own!r}")
    return own or given


def _answer(outcome: Outcome, cluster: str) -> Response:
    body: dict[str, Any] = {"id": outcome.name, "cluster": cluster, "outcome": outcome.word}
    if outcome.reason:
        body["reason"] = outcome.reason
    if outcome.due is not None:
        body["due"] = outcome.due
    return JSONResponse(body, STATUS.get(outcome.word, 200))
