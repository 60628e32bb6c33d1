"""The rows of one batch to the brokers: keys side by side, the messages of each key one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

from orbitmq.client.core.calling import LET_OUT, is_cancelled
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.message import Message
from orbitmq.client.producer.producer import BatchPartlySent, Producer
from orbitmq.outbox.claiming import Noted, Row
from orbitmq.outbox.errors import reason_of
from orbitmq.outbox.rows import message_of
from orbitmq.outbox.verdicts import Verdict, verdict_of

CHUNK_MESSAGES = 64
"""Messages of one key that share a request."""
UNKNOWN_TRIES = 10
"""Tries of a message whose error has nothing to do with brokers; then it is parked."""
MAX_NOTED = 20
"""Rows of a batch whose refusal for now is written down: they are examples, and writing costs."""


@dataclass(frozen=True, slots=True)
class SendingRules:
    """Options of a relay that say how it sends."""

    send_timeout_ms: int
    park_blocks_key: bool
    park_after_ms: int | None


@dataclass(slots=True)
class Sent:
    """The outcome of a batch."""

    noted: Noted = field(default_factory=Noted)
    topics_sent: set[str] = field(default_factory=set)
    topics_failed: dict[str, Exception] = field(default_factory=dict)
    """The last error by topic, of those that are worth another try."""
    fatal: BaseException | None = None
    """An error after which nothing can be sent any more: the producer is closed."""


class Sending:
    """One batch on its way. `stop` ends it before the next request; requests under way are awaited."""

    def __init__(self, producer: Producer, rules: SendingRules, stop: asyncio.Event, now_ms: int) -> None:
        self._producer = producer
        self._rules = rules
        self._stop = stop
        self._now_ms = now_ms
        self._result = Sent()

    async def run(self, rows: Sequence[Row]) -> Sent:
        """Send rows, and say what became of each."""
        lanes = (self._lane(lane) for lane in lanes_of(rows))
        ended = await asyncio.gather(*lanes, return_exceptions=True)
        self._result.fatal = next((error for error in ended if error is not None), None)
        return self._result

    async def _lane(self, rows: Sequence[Row]) -> None:
        """The rows of one key, in order; the first that has to be tried again ends it."""
        waiting = list(rows)
        while waiting and not self._stop.is_set():
            chunk, unreadable = self._messages(first_chunk(waiting, self._is_traced))
            if not chunk:
                assert unreadable is not None
                if not self._park(waiting.pop(0), unreadable, waiting):
                    return
                continue
            done, error = await self._request(chunk)
            self._sent(waiting[:done])
            del waiting[:done]
            if error is None:
                continue
            if len(chunk) - done > 1 and verdict_of(error) is Verdict.NEVER:
                # One of them is to blame: each by itself, the request shows which.
                done, error = await self._one_by_one(waiting[: len(chunk) - done])
                del waiting[:done]
                if error is None:
                    continue
            if not self._failed(waiting.pop(0), error, waiting):
                return

    async def _one_by_one(self, rows: Sequence[Row]) -> tuple[int, Exception | None]:
        """Number of rows that were sent, and the error of the first that was not."""
        for number, row in enumerate(rows):
            if self._stop.is_set():
                return number, None
            _, error = await self._request([message_of(row)])
            if error is not None:
                return number, error
            self._sent([row])
        return len(rows), None

    async def _request(self, messages: list[Message]) -> tuple[int, Exception | None]:
        """Number of messages that are stored, and the error of the others."""
        timeout_ms = self._rules.send_timeout_ms
        try:
            if len(messages) == 1:
                with _in_trace_of(messages[0], self._is_traced):
                    await self._producer.send(messages[0], timeout_ms=timeout_ms)
            else:
                key = messages[0].sharding_key
                await self._producer.send_batch(messages, sharding_key=key, timeout_ms=timeout_ms)
        except NotRunning:
            raise
        except BatchPartlySent as error:
            cause = error.__cause__
            return len(error.sent), cause if isinstance(cause, Exception) else error
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return 0, RuntimeError(LET_OUT)  # of middleware
        except Exception as error:
            return 0, error
        return len(messages), None

    @property
    def _is_traced(self) -> bool:
        """True if middleware makes spans, or does whatever else, around each send."""
        return bool(self._producer.middleware)

    def _messages(self, rows: Sequence[Row]) -> tuple[list[Message], Exception | None]:
        """The messages of the first rows, up to one that is none, and its error."""
        messages = []
        for row in rows:
            try:
                messages.append(message_of(row))
            except Exception as error:
                return messages, error
        return messages, None

    def _sent(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._result.noted.sent.append(row["seq"])
            self._result.topics_sent.add(row["aggregatetype"])

    def _failed(self, row: Row, error: Exception, later: Sequence[Row]) -> bool:
        """Notes a failure; true if the rows after it may be sent."""
        verdict = verdict_of(error)
        if verdict is Verdict.NEVER:
            return self._park(row, error, later)
        if verdict is Verdict.UNKNOWN and row["attempts"] + 1 >= UNKNOWN_TRIES:
            return self._park(row, error, later)
        limit = self._rules.park_after_ms
        if verdict is Verdict.LATER and limit is not None and self._now_ms - row["created_ms"] >= limit:
            return self._park(row, error, later)
        if verdict is not Verdict.AWAY and (
            verdict is Verdict.UNKNOWN or len(self._result.noted.tried) < MAX_NOTED
        ):
            self._result.noted.tried[row["seq"]] = reason_of(error)
        self._result.topics_failed[row["aggregatetype"]] = error
        return False

    def _park(self, row: Row, error: Exception, later: Sequence[Row]) -> bool:
        noted = self._result.noted
        if self._rules.park_blocks_key and row["aggregateid"] is not None:
            noted.blocking[row["seq"]] = reason_of(error)
            noted.held.extend(one["seq"] for one in later)
            return False
        noted.parked[row["seq"]] = reason_of(error)
        return True


def lanes_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that have to go one after the other: those of one topic and key. Others are alone."""
    lanes: dict[tuple[str, str | int], list[Row]] = {}
    for row in rows:
        key = row["aggregateid"]
        lanes.setdefault((row["aggregatetype"], row["seq"] if key is None else key), []).append(row)
    return list(lanes.values())


def first_chunk(rows: Sequence[Row], one_by_one: bool) -> list[Row]:
    """The first rows that may share a request: brokers take neither delayed ones in it nor mixed flags."""

    def alone(row: Row) -> bool:
        return (
            one_by_one
            or bool(row["delay_level"])
            or row["deliver_at_ms"] is not None
            or not row["wait_store_ok"]
        )

    is_alone, run = next(groupby(rows[:CHUNK_MESSAGES], alone))
    return [next(run)] if is_alone else list(run)


@contextmanager
def _in_trace_of(message: Message, is_traced: bool) -> Iterator[None]:
    """Spans of the send belong to the trace of the transaction that wrote the message."""
    if not is_traced:
        yield
        return
    try:
        from opentelemetry import context, propagate
    except ModuleNotFoundError:
        yield
        return
    token = context.attach(propagate.extract(message.properties))
    try:
        yield
    finally:
        context.detach(token)
