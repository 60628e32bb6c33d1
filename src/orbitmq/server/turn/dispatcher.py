"""Requests to handlers, and what handlers say back to the wire.

All requests of one read are handled in one turn; consecutive requests of a code whose handler takes many go
to it together. After the turn, pushes to other peers leave and held calls whose time has come are woken.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Any

from orbitmq.handling.call import (
    READ_ON_LOOP_BYTES,
    Bound,
    BoundHandler,
    Call,
    DataAt,
    Durable,
    ManyHandler,
    OffLoop,
    OtherBroker,
    Outcome,
    Pause,
    Peer,
    Signal,
    Wait,
    Warm,
    off_loop,
)
from orbitmq.net.connection import Connection
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.remoting.frame import FRAME_HEAD_BYTES, MAX_FRAME_BYTES
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.schema.declare import REQUESTS, has_json

if TYPE_CHECKING:
    from orbitmq.handling.call import HandledFrames, Result
    from orbitmq.protocol.schema.declare import Request
    from orbitmq.server.turn.guard import Gate
    from orbitmq.server.turn.latency import TurnLatency
    from orbitmq.server.turn.pending_replies import PendingReplies, Withdrawal

log = logging.getLogger(__name__)

LAST_VERSION_WITHOUT_GO_AWAY = 475
"""Peers above this version (V5_3_1) reconnect elsewhere on an answer that says to go away."""

NOTICED_MS = 1
"""Requests that are younger are never too old."""

_CHECKED_AGAIN = (DataAt, Signal, Warm, OffLoop, OtherBroker)
"""Conditions that a peer's right has to outlive: what it reads comes after them. An answer that waits for the
disk alone reports work that is done."""

_TURNS = (Pause, OffLoop, OtherBroker)
"""Conditions after which a call continues in a turn of its own: other calls may wait for its effects."""


@dataclass(eq=False, repr=False)
class Dispatcher:
    """The turn of one server.

    `arrange` may bring requests of several kinds that came in one read into an order in which more of them
    are consecutive. A request that is older than `max_age_ms(code)` when its turn comes is refused.
    `after_turn(now)` runs once behind every read that others may have to hear of.
    `latency`, where there is one, measures how long requests take.
    `gate` is asked once more, after a change of users or rules, before a held call is answered.
    """

    bound: InitVar[Bound]
    waits: PendingReplies
    _: KW_ONLY
    arrange: Callable[[list[Command]], list[Command]] = lambda commands: commands
    after_turn: Callable[[int], None] = lambda now: None
    not_on_port: Callable[[int, int], bool] = lambda code, port: False
    max_age_ms: Callable[[int], float] = lambda code: math.inf
    gate: Gate | None = None
    latency: TurnLatency | None = None

    def __post_init__(self, bound: Bound) -> None:
        self.now = self.waits.now
        self._handlers, self._many, self._fast_paths = bound
        self._by_port: dict[
            int, list[tuple[tuple[bytes, ...], Callable[[bytes, Peer, int], HandledFrames | None], int]]
        ] = {}
        """By port, the fast paths that a read is offered to."""
        self.going_away = False
        """Set while the server stops: every request is refused, so that clients look elsewhere."""

    @property
    def has_fast_paths(self) -> bool:
        return bool(self._fast_paths)

    def rebind(self, bound: Bound) -> None:
        """Has other handlers answer from the next read on."""
        self._handlers, self._many, self._fast_paths = bound
        self._by_port.clear()

    def on_frames(self, connection: Connection, data: bytes) -> int:
        """Offers a read to the fast path for its first frame; gives how many bytes were handled."""
        port = connection.local_port
        fast_paths = self._by_port.get(port)
        if fast_paths is None:
            fast_paths = [
                (one.begins, one.handle, one.code)
                for one in self._fast_paths
                if not self.not_on_port(one.code, port)
            ]
            self._by_port[port] = fast_paths
        for one in fast_paths:
            if data.startswith(one[0], FRAME_HEAD_BYTES):
                handle = one[1]
                break
        else:
            return 0
        if self.going_away or self.waits.is_full(connection.id):
            return 0
        age_ms = connection.age_ms
        if age_ms >= NOTICED_MS and age_ms > self.max_age_ms(one[2]):
            return 0
        if self.latency is not None:
            self.latency.turn_began()
        now = self.now()
        try:
            handled = handle(data, connection.peer, now)
        except Exception:
            log.exception("requests of %s could not be handled at once", connection.peer.address)
            return 0  # nothing of them has been stored: they take the general path, one by one
        if handled is None:
            return 0
        self._answer(connection, handled, data)
        if handled.concerns_others:
            self.after_turn(now)
        return handled.end

    def _answer(self, connection: Connection, handled: HandledFrames, data: bytes) -> None:
        began = 0.0 if self.latency is None else self.latency.began
        if handled.durable and handled.answered:

            def ended(outcome: Outcome) -> None:
                late = outcome.timed_out
                if self.latency is not None:
                    self.latency.frames_answered(handled, handled.late_code if late else 0, began)
                connection.send_frame(handled.late(handled.answers) if late else handled.answers)

            wait = Wait((Durable(handled.durable),), handled.deadline, lambda outcome, now: None)
            self.waits.hold(connection.id, wait, ended, handled.answered)
            return
        if self.latency is not None:
            self.latency.frames_answered(handled, 0, began)
        if handled.answered:
            connection.send_frame(handled.answers)
        if not handled.results:
            return
        if self.gate is None:
            for command, result in handled.results:
                self._answer_or_wait(connection, command, result)
            return
        # A held call may be refused later, by what its whole request asked for.
        whole: dict[int, list[Command]] = {}
        for command in decode_frames(data[: handled.end], MAX_FRAME_BYTES)[0]:
            whole.setdefault(command.opaque, []).append(command)
        for command, result in handled.results:
            self._answer_or_wait(
                connection, command, result, self._withdrawal(connection, whole[command.opaque])
            )

    def on_requests(self, connection: Connection, commands: list[Command]) -> None:
        """Handles what one read brought."""
        if self.latency is not None:
            self.latency.turn_began()
        now = self.now()
        age_ms = connection.age_ms
        if age_ms >= NOTICED_MS:
            commands = self._fresh(connection, commands, age_ms)
        i, n = 0, len(commands)
        is_arranged = n == 1
        while i < n:
            code = commands[i].code
            many = self._many.get(code)
            if many is None or self.going_away:
                self._one(connection, commands[i], now)
                i += 1
                continue
            first = i
            while i < n and commands[i].code == code:
                i += 1
            if i < n and not is_arranged:
                commands = [*commands[:first], *self.arrange(commands[first:])]
                is_arranged = True
                i = first
                continue
            self._together(connection, many, commands if i - first == n else commands[first:i], now)
        self.after_turn(now)

    def _fresh(self, connection: Connection, commands: list[Command], age_ms: float) -> list[Command]:
        """Refuses what has waited for too long; the rest."""
        fresh = [command for command in commands if age_ms <= self.max_age_ms(command.code)]
        if len(fresh) < len(commands):
            remark = (
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"period in queue: {age_ms:.0f}ms, size of queue: {len(commands)}"
            )
            for command in commands:
                if age_ms > self.max_age_ms(command.code):
                    self._fail(connection, command, Refused(ResponseCode.SYSTEM_BUSY, remark))
        return fresh

    def _one(self, connection: Connection, command: Command, now: int) -> None:
        try:
            if self.going_away:
                knows = command.version > LAST_VERSION_WITHOUT_GO_AWAY
                code = ResponseCode.GO_AWAY if knows else ResponseCode.SERVICE_NOT_AVAILABLE
                raise Refused(code, "the server is about to stop")
            handler = self._handlers.get(command.code)
            if handler is None or self.not_on_port(command.code, connection.local_port):
                raise Refused(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
                )
            result = self._handle(handler, connection, command, now)
        except Exception as error:
            self._fail(connection, command, error)
        else:
            self._answer_or_wait(connection, command, result)

    def _handle(self, handler: BoundHandler, connection: Connection, command: Command, now: int) -> Result:
        peer = connection.peer
        peer.version = command.version
        peer.language = command.language
        kind = REQUESTS[command.code]
        body = command.body
        if body is None or len(body) <= READ_ON_LOOP_BYTES or not has_json(kind):
            return handler(Call(kind.from_peer(command), command, peer), now)

        def read() -> Generator[None, None, Request[Any]]:
            yield from ()
            return kind.from_peer(command)

        def handle(request: Request[Any], later: int) -> Result:
            return handler(Call(request, command, peer), later)

        return off_loop(read(), handle, now, holds_body=True)

    def _together(self, connection: Connection, many: ManyHandler, commands: list[Command], now: int) -> None:
        peer = connection.peer
        peer.version = commands[0].version
        peer.language = commands[0].language
        try:
            results = many(commands, peer, now)
        except Exception as error:
            for command in commands:
                self._fail(connection, command, error)
            return
        frames = 0
        for command, result in zip(commands, results, strict=True):
            if isinstance(result, bytes):
                frames += 1
                if not command.flag & 2:
                    connection.send_frame(result)
            elif isinstance(result, Exception):
                self._fail(connection, command, result)
            else:
                self._answer_or_wait(connection, command, result)
        if frames and self.latency is not None:
            self.latency.together_answered(commands[0], frames)

    def _withdrawal(self, connection: Connection, commands: list[Command]) -> Withdrawal | None:
        """Tells whether requests that were let in would be refused by now."""
        gate = self.gate
        if gate is None:
            return None
        seen = gate.changes

        def withdrawal() -> Refused | None:
            nonlocal seen
            if gate.changes != seen:
                for command in commands:
                    remark = gate.withdrawal(command, connection.peer)
                    if remark is not None:
                        return Refused(ResponseCode.NO_PERMISSION, remark)
                seen = gate.changes
            return None

        return withdrawal

    def _answer_or_wait(
        self,
        connection: Connection,
        command: Command,
        result: Result | bytes,
        withdrawal: Withdrawal | None = None,
    ) -> None:
        if self.latency is not None:
            if isinstance(result, Wait):
                self.latency.waits(result)
            else:
                code = 0 if result is None or isinstance(result, bytes) else int(result.code)
                self.latency.answered(command, code)
        if result is None:
            return
        if isinstance(result, bytes):
            connection.send_frame(result)
            return
        if isinstance(result, Wait):
            wait = result
            if withdrawal is None:
                withdrawal = self._withdrawal(connection, [command])
            reads_later = any(isinstance(one, _CHECKED_AGAIN) for one in wait.on)
            asked = withdrawal if reads_later else None
            goes_on = any(isinstance(one, _TURNS) for one in wait.on)

            def ended(outcome: Outcome) -> None:
                try:
                    refused = None if asked is None else asked()
                    if refused is not None:
                        if wait.abandon is not None:
                            wait.abandon()
                        raise refused
                    following = wait.then(outcome, self.now())
                except Exception as error:
                    self._fail(connection, command, error)
                else:
                    self._answer_or_wait(connection, command, following, withdrawal)
                if goes_on:
                    self.after_turn(self.now())

            self.waits.hold(connection.id, wait, ended, withdrawal=asked)
        elif not command.flag & 2:
            connection.send(result.to_command(command.opaque))

    def _fail(self, connection: Connection, command: Command, error: Exception) -> None:
        if isinstance(error, Refused):
            code, remark, extra = int(error.code), error.remark, error.extra
        else:
            log.error("request %d of %s failed", command.code, connection.peer.address, exc_info=error)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            code = int(ResponseCode.SYSTEM_ERROR)
            remark, extra = f"{type(error).__name__}: {error}, {frame.name}:{frame.lineno}", None
        if self.latency is not None:
            self.latency.answered(command, code)
        if not command.flag & 2:
            connection.send(Command(code, command.opaque, FLAG_RESPONSE, extra, None, remark))
