"""The words in which rules and the process around them talk: a call, its reply, and what it may wait for.

A handler is a plain function `handle(tables, call, now) -> Reply | Wait | None`. It never waits, reads no
clock and touches no socket; `now` is wall-clock time in ms. Rules stay testable without a loop or a sleep.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command

if TYPE_CHECKING:
    from orbitmq.protocol.schema.declare import Reply, Request

R = TypeVar("R")


class Peer:
    """The other end of a connection, as handlers may know it."""

    __slots__ = ("address", "clock_behind_ms", "connection_id", "host", "language", "late", "version")

    def __init__(
        self, connection_id: int, host: bytes, address: str, version: int = 0, language: int = 0
    ) -> None:
        self.connection_id = connection_id
        self.host = host
        """Packed address: 4 or 16 bytes of IP, then the port as i32."""
        self.address = address
        """The same as text, `ip:port`."""
        self.version = version
        self.language = language
        self.clock_behind_ms = 0
        """Time by which its clock is behind, as far as its requests have shown."""
        self.late: tuple[int, int] | None = None
        """Moment at which a request came too late by its clock, and by how much; see `pop.lateness`."""


class Call(Generic[R]):
    """One request with its peer."""

    __slots__ = ("command", "peer", "request")

    def __init__(self, request: R, command: Command, peer: Peer) -> None:
        self.request = request
        self.command = command
        self.peer = peer

    @property
    def is_oneway(self) -> bool:
        """True if the peer expects no reply."""
        return self.command.is_oneway


class DataAt(NamedTuple):
    """A message at or behind `queue_offset` of a queue, whose tag hash is in `tag_codes` (None: any).

    `accepts(queue_offset)` looks at a message that has come, where the hash of its tag does not say it.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tag_codes: frozenset[int] | None = None
    accepts: Callable[[int], bool] | None = None


@dataclass(slots=True, frozen=True)
class Durable:
    """The commit log is on the disk up to `physical_offset`."""

    physical_offset: int


@dataclass(slots=True, frozen=True)
class Saved:
    """The present state of a table (`topics`, `groups`, `offsets`, ...) is in its file."""

    table: str


@dataclass(slots=True, frozen=True, eq=False)
class Answer:
    """A connected peer answers `request`; sent when the handler returns."""

    connection_id: int
    request: Request[Any]


@dataclass(slots=True, frozen=True, eq=False)
class OtherBroker:
    """The master of another broker group answers `request`; its reply, or error, is the outcome's."""

    name: str
    request: Request[Any]


@dataclass(slots=True, frozen=True)
class Warm:
    """A range of the commit log is in memory, so that reading it does not stop everybody else.

    Or, with `queue`, units of that queue of the store from queue offset `offset` on.
    """

    offset: int
    size_bytes: int
    queue: object | None = None


@dataclass(slots=True, frozen=True, eq=False, weakref_slot=True)
class Signal:
    """The rules themselves say when, by naming this very object."""


@dataclass(slots=True, frozen=True, eq=False)
class Pause:
    """Everybody else had a turn: between the parts of work that would hold them up."""


@dataclass(slots=True, frozen=True, eq=False)
class OffLoop:
    """`work` is done, in a thread: what waits for the disk, walks long chains or reads large texts.

    Each of its steps takes some ms at most; between them others' work comes in, and it ends where the peer is
    gone. It uses nothing that the rules change: what it needs of that it was given as values.
    """

    work: Generator[None, None, object]
    holds_body: bool = False
    """True if it keeps a large body in memory: a peer may have few of these under way."""


Condition: TypeAlias = DataAt | Durable | Saved | Answer | OtherBroker | Warm | Signal | Pause | OffLoop


@dataclass(slots=True)
class Outcome:
    """The end of a wait. `answers` holds the raw answers by condition; a silent peer is absent."""

    timed_out: bool
    answers: dict[Answer, Command] = field(default_factory=dict)
    value: Any = None
    """The result of work off the loop; another broker's reply."""
    error: Exception | None = None
    """The reason why there is none."""


@dataclass(slots=True)
class Wait:
    """The reply has to wait for all of `on`, or with `any_of` for the first; until `deadline` (ms).

    `then(outcome, now)` gives the reply, or None. It may wait once more, but never twice for data; only a
    call that was held for a Signal may be held for one again, until its deadline. Bytes are a whole frame.
    """

    on: tuple[Condition, ...]
    deadline: int
    then: Callable[[Outcome, int], Reply | Wait | bytes | None]
    any_of: bool = False
    abandon: Callable[[], None] | None = None
    """Called in place of `then` where the peer has lost the right to the reply."""


@dataclass(slots=True)
class HandledFrames:
    """Requests at the start of a read that were handled as frames, all at once."""

    end: int
    """Number of bytes of the read that they took."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    by_code: Mapping[int, tuple[int, int]]
    """Number of answered and of one-way requests, by request code."""
    durable: int = 0
    """The answers wait until the log is on the disk up to here; 0: they wait for nothing."""
    deadline: int = 0
    """Until when they wait at most (ms)."""
    late: Callable[[bytes], bytes] = bytes
    """Makes of the answers those that leave when the deadline has passed."""
    late_code: int = 0
    results: Sequence[tuple[Command, Result]] = ()
    """Results of requests that wait or are answered one by one, with as much of the requests
    as their answers need."""
    concerns_others: bool = True
    """True if other peers may have to be notified in this turn, or a table to be written soon."""


class FastPath(NamedTuple):
    """A fast path: handles whole frames of a kind at the start of a peer's read."""

    begins: tuple[bytes, ...]
    """Possible beginnings of the first frame's header; other reads are not offered."""
    handle: Callable[[bytes, Peer, int], HandledFrames | None]
    code: int
    """Request code of the frames; nothing is offered on ports that do not serve it."""


Result: TypeAlias = "Reply | Wait | None"

TURNS_TIMEOUT_MS = 60_000


def in_turns(work: Generator[None, None, Result], now: int) -> Result:
    """Does long work one part per turn: `work` yields where others may come in, and returns the result.

    State that it works on may have changed behind each yield. It is given up where the peer goes away
    meanwhile.
    """
    try:
        next(work)
    except StopIteration as done:
        return cast("Result", done.value)
    return Wait((Pause(),), now + TURNS_TIMEOUT_MS, lambda outcome, later: in_turns(work, later))


OFF_LOOP_TIMEOUT_MS = 60_000
READ_ON_LOOP_BYTES = 16 << 10
"""Longer JSON bodies are read in a thread: on the loop this takes a ms or two."""

T = TypeVar("T")


def off_loop(
    work: Generator[None, None, T],
    then: Callable[[T, int], Result],
    now: int,
    *,
    holds_body: bool = False,
) -> Wait:
    """Has `work` done beside the loop; `then(value, now)` makes the reply of what it came to.

    The result of the work answers the request; so does an error that it raises. One that takes too long is
    answered SYSTEM_BUSY. `holds_body`: the work keeps a large body of the peer in memory.
    """

    def ended(outcome: Outcome, later: int) -> Result:
        if outcome.error is not None:
            raise outcome.error
        if outcome.timed_out:
            raise Refused(ResponseCode.SYSTEM_BUSY, "the request took too long; try again later")
        return then(outcome.value, later)

    return Wait((OffLoop(work, holds_body),), now + OFF_LOOP_TIMEOUT_MS, ended)


Handler: TypeAlias = Callable[[Any, Any, int], Result]
BoundHandler: TypeAlias = Callable[[Call[Any], int], Result]
ManyHandler: TypeAlias = Callable[[list[Command], Peer, int], Sequence["Result | Exception | bytes"]]
"""Takes consecutive requests of one peer; bytes among its results are whole frames."""


class Bound(NamedTuple):
    """All that answers the requests of one server, by request code."""

    handlers: Mapping[int, BoundHandler]
    """They take one call each."""
    many: Mapping[int, ManyHandler] = {}
    """They take consecutive requests at once and give one result for each."""
    fast_paths: Sequence[FastPath] = ()
    """They are offered a read before it is cut into requests."""


class Handlers:
    """The handlers of one server, by request code; `@handlers(RequestClass)` registers a function.

    A request class has one handler. The first parameter's annotation names the tables it works on.
    """

    def __init__(self) -> None:
        self.by_request: dict[type[Request[Any]], Handler] = {}

    def __call__(self, *requests: type[Request[Any]]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            for request in requests:
                if request in self.by_request:
                    raise TypeError(f"{request.__name__} has a handler already")
                self.by_request[request] = handler
            return handler

        return register

    def bind(self, tables: Mapping[type, object]) -> dict[int, BoundHandler]:
        """The handlers by code, each holding its tables out of `tables` (by type)."""
        bound: dict[int, BoundHandler] = {}
        for request, handler in self.by_request.items():
            bound[request.CODE] = _with_tables(handler, tables[tables_of(handler)])
        return bound


@functools.cache
def tables_of(handler: Handler) -> type:
    """The tables a handler works on: the annotation of its first parameter.

    The other annotations are not looked at: they may name what is only there for the type checker.
    """
    first = next(iter(inspect.signature(handler).parameters.values()))
    needs = first.annotation
    if isinstance(needs, str):
        needs = eval(needs, sys.modules[handler.__module__].__dict__)
    return needs  # type: ignore[no-any-return]


def _with_tables(handler: Handler, tables: object) -> BoundHandler:
    def bound(call: Call[Any], now: int) -> Result:
        return handler(tables, call, now)

    return bound
