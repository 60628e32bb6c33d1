"""Duration of requests: durations by request and response code, in plain lists of counters."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orbitmq.broker.metrics import Distribution, Sample
from orbitmq.broker.stats.metric_families import CREATE_BOUNDS_MS, RPC_BOUNDS_MS
from orbitmq.handling.call import DataAt, Outcome, Signal, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.names import is_system_topic
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import REQUESTS

if TYPE_CHECKING:
    from orbitmq.handling.call import HandledFrames, Result

UPDATE_TOPIC = 17
UPDATE_GROUP = 200
PROTECTING = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.POLLING_FULL,
    }
)
"""Refusals by which the broker protects itself."""

Key = tuple[int, int, bool, bool]
"""Request code, response code, whether the request was held for data, whether no peer waits for the
answer.
"""


class Durations:
    """Counts of durations in classes, and their sum in whole ms, as Apache adds them up."""

    __slots__ = ("bounds_ms", "counts", "total_ms")

    def __init__(self, bounds_ms: tuple[float, ...]) -> None:
        self.bounds_ms = bounds_ms
        self.counts = [0] * (len(bounds_ms) + 1)
        self.total_ms = 0

    def add(self, took_ms: float, count: int) -> None:
        """Counts so many durations; as everywhere in RocketMQ, whole ms count."""
        whole = int(took_ms)
        if not whole:
            self.counts[0] += count  # most are like this
            return
        self.counts[bisect_left(self.bounds_ms, whole)] += count
        self.total_ms += whole * count

    def distribution(self) -> Distribution:
        """The same as a histogram's value."""
        return Distribution(tuple(self.counts), self.total_ms)


class RpcLatency:
    """The durations of one server's requests. `record` is called for a request, or for many at once."""

    def __init__(self) -> None:
        self._rpc: dict[Key, Durations] = {}
        self._created: dict[tuple[int, bool, bool], Durations] = {}

    def record(self, key: Key, took_ms: float, count: int = 1) -> None:
        """Counts requests that ended alike after as long."""
        durations = self._rpc.get(key)
        if durations is None:
            durations = self._rpc[key] = Durations(RPC_BOUNDS_MS)
        durations.add(took_ms, count)

    def record_creation(self, code: int, response_code: int, topic: str, took_ms: float) -> None:
        """Counts the creation or change of a topic or group."""
        key = (code, response_code == ResponseCode.SUCCESS, is_system_topic(topic))
        durations = self._created.get(key)
        if durations is None:
            durations = self._created[key] = Durations(CREATE_BOUNDS_MS)
        durations.add(took_ms, 1)

    def samples(self) -> Iterator[Sample]:
        refused: dict[tuple[str, str], int] = {}
        for (code, response_code, held, oneway), durations in list(self._rpc.items()):
            labels = (
                "true" if held else "false",
                "remoting",
                request_name(code),
                response_name(response_code),
                "oneway" if oneway else "success",
            )
            yield Sample("rocketmq_rpc_latency_milliseconds", labels, durations.distribution())
            if response_code in PROTECTING:
                kind = (request_name(code), response_name(response_code))
                refused[kind] = refused.get(kind, 0) + sum(durations.counts)
        for kind, count in refused.items():
            yield Sample("orbitmq_refused_total", kind, count)
        for (code, worked, is_system), durations in list(self._created.items()):
            status = "success" if worked else "failure"
            if code == UPDATE_TOPIC:
                name = "rocketmq_topic_create_execution_time_milliseconds"
                yield Sample(name, (status, "true" if is_system else "false"), durations.distribution())
            else:
                name = "rocketmq_consumer_group_create_execution_time_milliseconds"
                yield Sample(name, (status,), durations.distribution())


def request_name(code: int) -> str:
    """`send_message_v2`; the number of an unknown request."""
    known = REQUESTS.get(code)
    return str(code) if known is None else known.NAME.lower()


def response_name(code: int) -> str:
    """`pull_not_found`; the number of an unknown code."""
    try:
        return ResponseCode(code).name.lower()
    except ValueError:
        return str(code)


class TurnLatency:
    """Measures the requests of a dispatcher's turns: a clock read per turn and per answer, not per message.

    `began` and `held` are those of the request that is handled now: a held one, once it continues, keeps the
    time at which its own turn began.
    """

    __slots__ = ("_held", "_latency", "began")

    def __init__(self, latency: RpcLatency) -> None:
        self._latency = latency
        self.began = 0.0
        """The beginning of the turn (monotonic)."""
        self._held = False

    def turn_began(self) -> None:
        """Called before the first request of a read is handled."""
        self.began = time.monotonic()
        self._held = False

    def frames_answered(self, handled: HandledFrames, response_code: int, began: float) -> None:
        """Counts the requests that a fast path handled together."""
        took_ms = (time.monotonic() - began) * 1000
        for code, (answered, oneway) in handled.by_code.items():
            if answered:
                self._latency.record((code, response_code, False, False), took_ms, answered)
            if oneway:
                self._latency.record((code, 0, False, True), took_ms, oneway)

    def together_answered(self, command: Command, count: int) -> None:
        """Counts requests like this one that were answered together, by whole frames."""
        took_ms = (time.monotonic() - self.began) * 1000
        self._latency.record((command.code, 0, False, bool(command.flag & 2)), took_ms, count)

    def answered(self, command: Command, response_code: int) -> None:
        took_ms = (time.monotonic() - self.began) * 1000
        code = command.code
        self._latency.record((code, response_code, self._held, bool(command.flag & 2)), took_ms)
        if code in (UPDATE_TOPIC, UPDATE_GROUP):
            topic = (command.ext or {}).get("topic", "")
            self._latency.record_creation(code, response_code, topic, took_ms)

    def waits(self, wait: Wait) -> None:
        """Has a request that waits be counted when it ends, with all of the time since its turn began."""
        began, then = self.began, wait.then
        held = self._held or any(isinstance(one, (DataAt, Signal)) for one in wait.on)

        def resumed(outcome: Outcome, now: int) -> Result | bytes:
            # The result of `then` is answered, or fails, right after it.
            self.began, self._held = began, held
            return then(outcome, now)

        wait.then = resumed
