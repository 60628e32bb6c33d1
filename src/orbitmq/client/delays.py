"""Clients of a delay service's HTTP API: schedule, move, cancel and look.

    client = DelayClient("http://127.0.0.1:8090")
    scheduled = client.send_after("orders", b"...", "15m", id="order-17-unpaid")
    client.cancel("order-17-unpaid")

`AsyncDelayClient` has the same methods for asyncio, and does the work of both. Actions go through the source
topic of their cluster, one queue for each name; an answer tells the outcome, and is as safe as the store.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from orbitmq.client.blocking import SyncWrapper, constructor_of, waiting
from orbitmq.protocol.errors import OrbitError

if TYPE_CHECKING:
    import http.client

R = TypeVar("R")

Time = int | datetime
"""ms since 1970, or a datetime with its zone."""
Span = int | str | timedelta
"""ms; a text such as 90s, 15m, 2h, 30d; or a timedelta."""
CatchUp = Literal["none", "last", "all"]
Word = Literal["scheduled", "replaced", "cancelled", "moved", "too-late", "unknown", "refused"]
DEFAULT_TIMEOUT_SECONDS = 20.0
MOST_OF_PAGE = 1000
OUTCOMES = frozenset({"scheduled", "replaced", "cancelled", "moved", "too-late", "unknown", "refused"})


class DelayError(OrbitError):
    """Base of the errors of the delay service and its clients."""


class DelayUnavailable(DelayError):
    """The service does not answer, or cannot work at present."""


class DelayRefused(DelayError):
    """The service refuses the request; the text says why."""


@dataclass(frozen=True, slots=True)
class DelayOutcome:
    """The outcome of an action."""

    id: str
    cluster: str
    outcome: Word
    due_ms: int | None = None
    """The time that was asked for."""
    reason: str = ""

    @property
    def in_time(self) -> bool:
        """True if the action had its effect."""
        return self.outcome in ("scheduled", "replaced", "cancelled", "moved")


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A pending message."""

    id: str
    cluster: str
    target: str
    due_ms: int
    occurrence: int
    size_bytes: int
    body: bytes | None = None
    """Of `get` alone."""
    properties: Mapping[str, str] = field(default_factory=dict)
    repeat: Mapping[str, Any] | None = None
    owner: str = ""
    """The owner of the name; empty: anybody may change it."""


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    path: str
    body: dict[str, Any] | None = None


class _Calls:
    """The requests of both clients, and their answers: no network here."""

    def __init__(self, cluster: str | None) -> None:
        self.cluster = cluster

    def where(self, id: str, cluster: str | None) -> str:
        cluster = cluster or self.cluster or "main"
        return f"/v1/messages/{quote(cluster, safe='')}/{quote(id, safe='')}"

    def schedule(self, target: str, body: bytes | str, fields: Mapping[str, Any]) -> _Call:
        data = body.encode() if isinstance(body, str) else body
        given: dict[str, Any] = {"target": target, "body_base64": b64encode(data).decode()}
        if self.cluster and not fields.get("cluster"):
            given["cluster"] = self.cluster
        for name, value in fields.items():
            if value is not None:
                given[name] = _written(value)
        return _Call("POST", "/v1/messages", given)

    def move(self, id: str, cluster: str | None, fields: Mapping[str, Any]) -> _Call:
        given = {name: _written(value) for name, value in fields.items() if value is not None}
        return _Call("PATCH", self.where(id, cluster), given)

    def many(self, action: str, wanted: Mapping[str, Any], dry_run: bool, more: Mapping[str, Any]) -> _Call:
        given = {name: _written(value) for name, value in more.items() if value is not None}
        return _Call("POST", f"/v1/{action}", {"filter": dict(wanted), "dry_run": dry_run, **given})

    def page(self, fields: Mapping[str, Any]) -> _Call:
        query = {name: _written(value) for name, value in fields.items() if value not in (None, "")}
        return _Call("GET", f"/v1/messages?{urlencode(query)}")


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise DelayRefused("a datetime needs its zone: datetime.now(UTC), not datetime.now()")
        return int(value.timestamp() * 1000)
    if isinstance(value, timedelta):
        return int(value.total_seconds() * 1000)
    return value


def _outcome(found: Mapping[str, Any]) -> DelayOutcome:
    return DelayOutcome(
        found["id"], found["cluster"], found["outcome"], found.get("due"), found.get("reason", "")
    )


def _message(found: Mapping[str, Any]) -> DelayedMessage:
    body = found.get("body_base64")
    return DelayedMessage(
        found["id"],
        found["cluster"],
        found["target"],
        found["due"],
        found["occurrence"],
        found["size"],
        None if body is None else b64decode(body),
        found.get("properties", {}),
        found.get("repeat"),
        found.get("owner", ""),
    )


def _answer(status: int, data: bytes) -> dict[str, Any]:
    """The answer's object. Raises DelayRefused, DelayUnavailable."""
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DelayUnavailable(f"the answer (status {status}) is no JSON: is this a delay service?")
    if status < 400 or found.get("outcome") in OUTCOMES:
        return found
    detail = str(found.get("detail") or _unread(found) or f"status {status}")
    raise (DelayUnavailable if status >= 500 else DelayRefused)(detail)


def _unread(found: Mapping[str, Any]) -> str:
    """The reason why a service is not ready."""
    sources = found.get("sources")
    if not isinstance(sources, dict):
        return ""
    waiting = [
        f"{name}: {one.get('problem') or 'not read yet'}" for name, one in sources.items() if not one["read"]
    ]
    return f"not ready: {found.get('problem') or '; '.join(waiting) or 'it starts'}"


class AsyncDelayClient:
    """A client for asyncio: each request runs in a thread of its own.

    `url` is the address of the API; `cluster` the one whose names and targets are meant (default: the first
    of the service for new messages, `main` for names).
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8090",
        *,
        cluster: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DelayRefused(f"{url!r} is no address such as http://127.0.0.1:8090")
        self._host, self._port, self._https = parts.hostname, parts.port, parts.scheme == "https"
        self._tls = tls
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._calls = _Calls(cluster)

    async def start(self) -> None:
        """Nothing: each request has a connection of its own."""

    async def close(self) -> None:
        """Nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing."""

    def _connect(self) -> http.client.HTTPConnection:
        import http.client  # it takes long to import, and few programs use this client

        if self._https:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_seconds, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)

    async def _ask(self, call: _Call) -> dict[str, Any]:
        return await asyncio.to_thread(self._answer_to, call)

    def _answer_to(self, call: _Call) -> dict[str, Any]:
        from http.client import HTTPException

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if call.body is None else json.dumps(call.body)
        connection = self._connect()
        try:
            connection.request(call.method, call.path, data, headers)
            answer = connection.getresponse()
            return _answer(answer.status, answer.read())
        except (OSError, HTTPException) as error:
            raise DelayUnavailable(f"{self._host}:{self._port}: {error}") from error
        finally:
            connection.close()

    async def _schedule(self, target: str, body: bytes | str, fields: dict[str, Any]) -> DelayOutcome:
        return _outcome(await self._ask(self._calls.schedule(target, body, fields)))

    async def send_at(self, /, target: str, body: bytes | str, at: Time, **fields: Any) -> DelayOutcome:
        """Schedules a message for a time. `fields`: `id`, `cluster`, `key`, `tags`, `properties`, `expires`,
        `reply`, `owner`. Raises DelayRefused, DelayUnavailable.
        """
        return await self._schedule(target, body, {**fields, "at": at})

    async def send_after(self, /, target: str, body: bytes | str, after: Span, **fields: Any) -> DelayOutcome:
        """Schedules a message for the end of a span, which counts from the store time of the action."""
        return await self._schedule(target, body, {**fields, "after": after})

    async def repeat(
        self,
        /,
        target: str,
        body: bytes | str,
        every: Span,
        *,
        at: Time | None = None,
        factor: float | None = None,
        times: int | None = None,
        until: Time | None = None,
        catch_up: CatchUp | None = None,
        **fields: Any,
    ) -> DelayOutcome:
        """Schedules a repetition; the first time is `at`, or one interval from now."""
        first: dict[str, Any] = {"after": every} if at is None else {"at": at}
        given = {**fields, **first, "every": every, "factor": factor, "times": times, "until": until,
                 "catch_up": catch_up}  # fmt: skip
        return await self._schedule(target, body, given)

    async def cron(
        self,
        /,
        target: str,
        body: bytes | str,
        expression: str,
        *,
        zone: str | None = None,
        times: int | None = None,
        until: Time | None = None,
        catch_up: CatchUp | None = None,
        **fields: Any,
    ) -> DelayOutcome:
        """Schedules a message by cron: five fields, or six with seconds first; `zone` is UTC by default."""
        given = {**fields, "cron": expression, "zone": zone, "times": times, "until": until,
                 "catch_up": catch_up}  # fmt: skip
        return await self._schedule(target, body, given)

    async def cancel(self, id: str, *, cluster: str | None = None, owner: str | None = None) -> DelayOutcome:
        """Cancels a message: the outcome is `cancelled`, `too-late` or `unknown`."""
        path = self._calls.where(id, cluster) + (f"?{urlencode({'owner': owner})}" if owner else "")
        return _outcome(await self._ask(_Call("DELETE", path)))

    async def move(
        self,
        id: str,
        *,
        at: Time | None = None,
        after: Span | None = None,
        cluster: str | None = None,
        owner: str | None = None,
    ) -> DelayOutcome:
        """Moves a message to another time: the outcome is `moved`, `too-late` or `unknown`."""
        return _outcome(
            await self._ask(self._calls.move(id, cluster, {"at": at, "after": after, "owner": owner}))
        )

    async def get(self, id: str, *, cluster: str | None = None) -> DelayedMessage | None:
        """A pending message with its body; None if none has this name."""
        try:
            return _message(await self._ask(_Call("GET", self._calls.where(id, cluster))))
        except DelayRefused as error:
            if "is pending" in str(error):
                return None
            raise

    async def page(
        self,
        *,
        topic: str = "",
        since: Time | None = None,
        until: Time | None = None,
        prefix: str = "",
        cluster: str | None = None,
        limit: int = MOST_OF_PAGE,
        cursor: str = "",
    ) -> tuple[Sequence[DelayedMessage], str]:
        """Up to `limit` pending messages by target, then by time, and the cursor of those that follow.

        With `prefix` they come by name. A page with a cursor may be short, or empty.
        """
        given = {"topic": topic, "from": since, "to": until, "prefix": prefix, "cluster": cluster,
                 "cursor": cursor, "limit": limit}  # fmt: skip
        found = await self._ask(self._calls.page(given))
        return [_message(one) for one in found["messages"]], found["cursor"]

    async def list(
        self,
        *,
        topic: str = "",
        since: Time | None = None,
        until: Time | None = None,
        prefix: str = "",
        cluster: str | None = None,
    ) -> AsyncIterator[DelayedMessage]:
        """Pending messages by target, then by time, with `prefix` by name; asked for page by page."""
        cursor = ""
        while True:
            found, cursor = await self.page(
                topic=topic, since=since, until=until, prefix=prefix, cluster=cluster, cursor=cursor
            )
            for one in found:
                yield one
            if not cursor:
                return

    async def calendar(self, topic: str = "") -> Mapping[str, Sequence[tuple[int, int]]]:
        """Numbers of pending messages by target: the hour (ms) in which they are due, and their number."""
        found = await self._ask(_Call("GET", f"/v1/calendar?{urlencode({'topic': topic})}"))
        return {target: [(at, count) for at, count in hours] for target, hours in found["targets"].items()}

    async def cancel_many(
        self, wanted: Mapping[str, Any], *, owner: str | None = None, dry_run: bool = True
    ) -> dict[str, Any]:
        """Cancels the messages of a filter (topic, cluster, from, to, prefix); by default it only counts."""
        return await self._ask(self._calls.many("cancel", wanted, dry_run, {"owner": owner}))

    async def move_many(
        self,
        wanted: Mapping[str, Any],
        *,
        at: Time | None = None,
        after: Span | None = None,
        owner: str | None = None,
        dry_run: bool = True,
    ) -> dict[str, Any]:
        """Moves the messages of a filter; by default only counts them."""
        more = {"owner": owner, "at": at, "after": after}
        return await self._ask(self._calls.many("move", wanted, dry_run, more))

    async def stats(self) -> dict[str, Any]:
        """Counts of the service."""
        return await self._ask(_Call("GET", "/v1/stats"))

    async def ready(self) -> dict[str, Any]:
        """The sources of a service that has read them all. Raises DelayUnavailable."""
        return await self._ask(_Call("GET", "/health/ready"))

    async def backup(self) -> dict[str, Any]:
        """Has the service make a backup, and tells its folder on the service's machine and its time."""
        return await self._ask(_Call("POST", "/v1/backup", {}))


class _Blocking(AsyncDelayClient):
    """The core of `DelayClient`: its requests run where they are made, so no call ever waits in a loop."""

    async def _ask(self, call: _Call) -> dict[str, Any]:
        return self._answer_to(call)


class DelayClient(SyncWrapper[_Blocking]):
    """`AsyncDelayClient` for programs without asyncio, with the same arguments. Threads may share it."""

    @constructor_of(_Blocking)
    def __init__(self) -> None: ...

    def start(self) -> Self:
        """Nothing: each request has a connection of its own."""
        return self

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        try:
            work.send(None)
        except StopIteration as end:
            found: R = end.value
            return found
        raise RuntimeError("a request of the blocking client has waited in an event loop")

    send_at = waiting(AsyncDelayClient.send_at)
    send_after = waiting(AsyncDelayClient.send_after)
    repeat = waiting(AsyncDelayClient.repeat)
    cron = waiting(AsyncDelayClient.cron)
    cancel = waiting(AsyncDelayClient.cancel)
    move = waiting(AsyncDelayClient.move)
    get = waiting(AsyncDelayClient.get)
    cancel_many = waiting(AsyncDelayClient.cancel_many)
    move_many = waiting(AsyncDelayClient.move_many)
    stats = waiting(AsyncDelayClient.stats)
    calendar = waiting(AsyncDelayClient.calendar)
    page = waiting(AsyncDelayClient.page)
    ready = waiting(AsyncDelayClient.ready)
    backup = waiting(AsyncDelayClient.backup)

    def list(self, **wanted: Any) -> Iterator[DelayedMessage]:
        """Pending messages by target, then by time; see `AsyncDelayClient.list`."""
        found = self._core.list(**wanted)
        while (one := self._run(anext(found, None))) is not None:
            yield one
