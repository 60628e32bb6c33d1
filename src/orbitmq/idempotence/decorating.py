"""`once`: a decorator that gives each message of a handler one effect, however often it is delivered."""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from orbitmq.client import HoldBack, InvalidArgument, ReceivedMessage, Reply, Retry
from orbitmq.client.core.calling import is_async
from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.handlers import MAX_HOLD_BACK_MS, checked
from orbitmq.idempotence.both_forms import Of, as_async, at_once, awaited, given
from orbitmq.idempotence.contract import AsyncStore, Claim, State, Store
from orbitmq.idempotence.deciding import (
    Call,
    batch_outcome,
    decoded_result,
    encoded_result,
    refusal,
)
from orbitmq.idempotence.errors import InvalidKey, KeyConflict, StoreUnavailable, TableMissing
from orbitmq.idempotence.keys import (
    MAX_KEY_CHARACTERS,
    Entry,
    Fingerprint,
    Key,
    Scope,
    entry_of,
    whole_body,
)
from orbitmq.idempotence.observing import Counts, Event, Observer
from orbitmq.idempotence.retention import retention_warning

log = logging.getLogger("orbitmq.idempotence")

BUSY_PAUSE_MS = 200.0
"""Default pause of a message that is being handled elsewhere."""
AWAY_PAUSE_MS = 2000.0
"""Pause of a message whose store cannot be reached."""
PURGE_INTERVAL_SECONDS = 60.0
NOT_NOW = (StoreUnavailable, TableMissing)

Messages = Sequence[ReceivedMessage[Any]]
Given = ReceivedMessage[Any] | list[ReceivedMessage[Any]]


class _Undo(Exception):
    """Ends a unit of work so that it is undone: the handler asked for its messages to come again."""


class Once:
    """The settings of `once`, and a decorator of handlers. See there."""

    def __init__(
        self,
        store: Store | AsyncStore,
        key: Key = None,
        *,
        name: str | None = None,
        group: str | None = None,
        fingerprint: Fingerprint = whole_body,
        keep_result: bool = False,
        busy_pause_ms: float = BUSY_PAUSE_MS,
        dead_letter_retention_hours: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        if not isinstance(store, Store | AsyncStore):
            raise InvalidArgument(
                f"once: store has to be one, such as SqlAlchemyStore(engine), not {shown(store)}"
            )
        if not (key is None or (isinstance(key, str) and key) or callable(key)):
            raise InvalidArgument(
                "once: key has to be the name of a property, a function of the message or None, "
                f"not {shown(key)}"
            )
        if fingerprint is not None and not callable(fingerprint):
            raise InvalidArgument(
                f"once: fingerprint has to be a function that gives bytes, or None, not {shown(fingerprint)}"
            )
        check_number("once", "busy_pause_ms", busy_pause_ms, 1, MAX_HOLD_BACK_MS)
        for part, text in (("name", name), ("group", group)):
            if text is not None and not (isinstance(text, str) and 0 < len(text) <= MAX_KEY_CHARACTERS):
                raise InvalidArgument(
                    f"once: {part} has to be a text of 1 to {MAX_KEY_CHARACTERS} characters, "
                    f"not {shown(text)}"
                )
        if dead_letter_retention_hours is not None:
            check_number("once", "dead_letter_retention_hours", dead_letter_retention_hours, 0)
        self.store = store
        self.counts = Counts()
        """Sums of what happened to the messages of all handlers that this object decorated."""
        self._key = key
        self._name = name
        self._group = group
        self._fingerprint = fingerprint
        self._keep_result = keep_result
        self._busy_pause_ms = busy_pause_ms
        self._dead_letter_retention_hours = dead_letter_retention_hours
        self._observers: tuple[Observer, ...] = (self.counts, *observers)

    def __call__(self, handler: Callable[..., Any]) -> OnceHandler | AsyncOnceHandler:
        """The handler with one effect for each key: `OnceHandler`, or `AsyncOnceHandler` of an async one."""
        if not callable(handler):
            raise InvalidArgument(f"once: it decorates a handler, not {shown(handler)}")
        if is_async(handler):
            if not isinstance(self.store, AsyncStore):
                raise InvalidArgument(
                    f"once: {type(self.store).__name__} is for plain handlers, and {_name_of(handler)} is "
                    "async: use the store's async form, or write the handler as a plain function"
                )
            return AsyncOnceHandler(self, handler)
        if not isinstance(self.store, Store):
            raise InvalidArgument(
                f"once: {type(self.store).__name__} is for async handlers, and {_name_of(handler)} is a "
                "plain function: use the store's plain form, or write `async def`"
            )
        return OnceHandler(self, handler)

    def entry(self, message: ReceivedMessage[Any], *, group: str | None, handler: str) -> Entry:
        """The entry of a message. Raises InvalidKey, InvalidArgument without a consumer group."""
        group = self._group or group
        if group is None:
            raise InvalidArgument(
                "once: the consumer group is not known outside of a consumer: pass group= to `once`"
            )
        scope = Scope(group, message.topic, self._name or handler)
        return entry_of(message, scope, self._key, self._fingerprint)

    def claim(self, transaction: Any, message: ReceivedMessage[Any]) -> Done | None:
        """Claim a message in a transaction of your own: of a SQLAlchemy session or connection that you began
        and commit, or of Django's `atomic` block (where `transaction` is the alias of the database).

        Gives None if the message is this delivery's to handle, `Done` if it was handled before. Needs
        `group=` and `name=`. Raises HoldBack (let it pass to the consumer: it rolls back, and the message
        comes again soon), KeyConflict, InvalidKey, InvalidArgument.
        """
        return at_once(self._claim("claim_in", transaction, message, given))

    async def async_claim(self, transaction: Any, message: ReceivedMessage[Any]) -> Done | None:
        """The same in an AsyncSession or AsyncConnection."""
        return await self._claim("async_claim_in", transaction, message, awaited)

    async def _claim(
        self, method: str, transaction: Any, message: ReceivedMessage[Any], of: Of
    ) -> Done | None:
        entry = self._own_entry(message)
        try:
            [answer] = await of(self._in_transaction(method)(transaction, [entry]))
        except NOT_NOW as error:
            self.tell(Event.UNAVAILABLE, entry.scope, 1)
            raise HoldBack(AWAY_PAUSE_MS) from error
        return self._answered(entry, answer, message)

    def _own_entry(self, message: ReceivedMessage[Any]) -> Entry:
        if self._name is None or self._group is None:
            raise InvalidArgument("once: claim() in a transaction of your own needs name= and group=")
        return self.entry(message, group=None, handler=self._name)

    def _in_transaction(self, method: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self.store, method, None)
        if found is None:
            raise InvalidArgument(f"once: {type(self.store).__name__} cannot join a transaction of yours")
        return found

    def _answered(self, entry: Entry, claim: Claim, message: ReceivedMessage[Any]) -> Done | None:
        call = Call()
        call.add(message, entry)
        call.answer([claim])
        if call.refused:
            self.tell(Event.CONFLICT, entry.scope, 1)
            raise call.refused[0][1]
        if claim.state is State.IN_FLIGHT:
            self.tell(Event.IN_FLIGHT, entry.scope, 1)
            raise HoldBack(self._busy_pause_ms)
        if claim.state is State.DONE:
            self.tell(Event.DUPLICATE, entry.scope, 1)
            return Done(decoded_result(claim.result))
        return None

    def tell(self, event: Event, scope: Scope, count: int) -> None:
        """Pass an event on to the counts and the observers."""
        if count:
            for observer in self._observers:
                observer.seen(event, scope, count)

    def tell_rows(self, scope: Scope, count: int) -> None:
        """Pass on the number of entries."""
        for observer in self._observers:
            observer.rows(scope, count)


class Done:
    """Answer of `Once.claim` for a message that was handled before."""

    __slots__ = ("result",)

    def __init__(self, result: Reply | None) -> None:
        self.result = result
        """The reply that was kept of it."""


class _Decorated:
    """The part that plain and async handlers share."""

    def __init__(self, once: Once, handler: Callable[..., Any]) -> None:
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(handler, attribute):
                setattr(self, attribute, getattr(handler, attribute))
        self.once = once
        self._handler = handler
        self._handler_name = _name_of(handler)
        self._group: str | None = None
        self._topics: dict[str, Scope] = {}

    def for_group(self, group: str, *, batch: bool) -> Any:
        """The same handler, for one consumer group: `subscribe` asks for it."""
        bound = copy.copy(self)
        bound._group = group
        return bound

    def idempotency_key(self, message: ReceivedMessage[Any]) -> str:
        """64 hex digits that are the same for each delivery of a message, for calls of others' APIs."""
        return self._entry(message).id

    def _entry(self, message: ReceivedMessage[Any]) -> Entry:
        return self.once.entry(message, group=self._group, handler=self._handler_name)

    def _call_of(self, messages: Messages) -> tuple[Call, Scope | None]:
        """The call with the keys of all messages; raises InvalidArgument without a consumer group."""
        call, scope = Call(), None
        for message in messages:
            try:
                entry = self._entry(message)
            except InvalidKey as error:
                call.refused.append((message, error))
            else:
                scope = entry.scope
                call.add(message, entry)
        return call, scope

    def _refuse(self, call: Call, messages: Messages, single: bool) -> Retry:
        """The result of a call with refused messages; raises the error of a single one."""
        for message, error in call.refused:
            scope = Scope(self._group or "", message.topic, self._handler_name)
            kind = Event.CONFLICT if isinstance(error, KeyConflict) else Event.INVALID_KEY
            self.once.tell(kind, scope, 1)
        if single:
            raise call.refused[0][1]
        return refusal(call, messages)

    @staticmethod
    def _to_release(call: Call, outcome: object) -> list[Entry]:
        """The entries to give up while the others are committed. Raises _Undo if there are no others."""
        released = call.released_by(outcome)
        if released and len(released) == len(call.of(State.CLAIMED)):
            raise _Undo
        return released

    def _failed(self, call: Call, scope: Scope, error: Exception, *, running: bool, single: bool) -> Retry:
        """The result after an exception, which has undone everything; raises it where it is for all messages.

        Of a batch, messages that were handled before stay done, and those in flight elsewhere use up no
        attempt.
        """
        count = sum(len(one.messages) for one in call.deliveries.values())
        if isinstance(error, NOT_NOW) and not running:
            self.once.tell(Event.UNAVAILABLE, scope, count)
            raise HoldBack(AWAY_PAUSE_MS) from error
        claimed = call.of(State.CLAIMED)
        if single or len(claimed) == len(call.deliveries):
            self.once.tell(Event.FAILED, scope, len(claimed))
            raise error
        retry = Retry(messages=[one.messages[0] for one in claimed])
        retry.__cause__ = error
        return retry

    def _arguments(self, call: Call, single: bool) -> Any:
        claimed = [one.messages[0] for one in call.of(State.CLAIMED)]
        return claimed[0] if single else claimed

    def _concluded(self, call: Call, scope: Scope, outcome: Any, single: bool) -> Any:
        """Tell the observers, and give the result of the whole call."""
        once = self.once
        claimed, busy, done = (call.of(state) for state in (State.CLAIMED, State.IN_FLIGHT, State.DONE))
        failed = len(call.released_by(outcome))
        once.tell(Event.HANDLED, scope, len(claimed) - failed)
        once.tell(Event.FAILED, scope, failed)
        once.tell(Event.IN_FLIGHT, scope, sum(len(one.messages) for one in busy))
        twins = sum(len(one.messages) - 1 for one in claimed)
        once.tell(Event.DUPLICATE, scope, sum(len(one.messages) for one in done) + twins)
        if not single:
            return batch_outcome(call, outcome, once._busy_pause_ms)
        if busy:
            return HoldBack(once._busy_pause_ms)
        if done:
            assert done[0].claim is not None
            return decoded_result(done[0].claim.result)
        return outcome

    async def _handle(
        self, asked: Given, open_unit: Callable[[], AbstractAsyncContextManager[Any]], of: Of
    ) -> Any:
        single = not isinstance(asked, list)
        messages: Messages = [asked] if not isinstance(asked, list) else asked
        call, scope = self._call_of(messages)
        if call.refused or scope is None:
            return self._refuse(call, messages, single) if call.refused else None
        outcome: Any = None
        running = False
        try:
            async with open_unit() as unit:
                call.answer(await of(unit.claim(call.entries)))
                if call.refused:
                    raise _Undo
                if call.of(State.CLAIMED):
                    running = True
                    try:
                        outcome = await of(self._handler(self._arguments(call, single), *unit.arguments))
                    except Retry as retry:
                        outcome = retry.with_traceback(None)
                    outcome = checked(outcome, messages, batch=not single)
                    running = False
                    if released := self._to_release(call, outcome):
                        await of(unit.release(released))
                    if kept := self._kept(outcome):
                        await of(unit.keep(call.entries[0], kept))
        except _Undo:
            if call.refused:
                return self._refuse(call, messages, single)
        except Exception as error:
            outcome = self._failed(call, scope, error, running=running, single=single)
        except BaseException:
            self.once.tell(Event.FAILED, scope, len(messages))
            raise
        return self._concluded(call, scope, outcome, single)

    def _kept(self, outcome: object) -> str:
        return encoded_result(outcome) if self.once._keep_result else ""

    async def run_in_background(self, dead_letter_retention_ms: Callable[[], Awaitable[int | None]]) -> None:
        """Warn of a retention that is too short, and delete old entries, once a minute."""
        once, scope = self.once, Scope(self._group or "", "", self.once._name or self._handler_name)
        hours = once._dead_letter_retention_hours
        if hours is None:
            told_ms = await dead_letter_retention_ms()
            hours = None if told_ms is None else told_ms / 3_600_000
        warning = retention_warning(scope, once.store.retention_hours, hours)
        if warning is not None:
            log.warning(warning)
        failing = False
        while True:
            try:
                await self._purge_once(scope)
            except Exception as error:
                if not failing:
                    log.warning("clean-up of the keys of %s: %s", scope.handler, error)
                failing = True  # it is tried again, and heard of once
            else:
                failing = False
            await asyncio.sleep(PURGE_INTERVAL_SECONDS)

    async def _purge_once(self, scope: Scope) -> None:
        store, now_ms = self.once.store, time.time_ns() // 1_000_000
        if isinstance(store, AsyncStore):
            purged, rows = await store.async_purge(now_ms), await store.async_count()
        else:
            purged = await asyncio.to_thread(store.purge, now_ms)
            rows = await asyncio.to_thread(store.count)
        self.once.tell(Event.PURGED, scope, purged)
        if rows is not None:
            self.once.tell_rows(scope, rows)


class OnceHandler(_Decorated):
    """A plain handler with one effect for each key. May also be called directly, in tests for example."""

    def __call__(self, messages: Given) -> Any:
        """Handle a message, or a list of them."""
        store = self.once.store
        assert isinstance(store, Store)
        return at_once(self._handle(messages, lambda: as_async(store.unit()), given))


class AsyncOnceHandler(_Decorated):
    """An async handler with one effect for each key. May also be awaited directly, in tests for example."""

    async def __call__(self, messages: Given) -> Any:
        """Handle a message, or a list of them."""
        assert isinstance(self.once.store, AsyncStore)
        return await self._handle(messages, self.once.store.async_unit, awaited)


def _name_of(handler: Callable[..., Any]) -> str:
    name: str = getattr(handler, "__qualname__", type(handler).__qualname__)
    return name[-MAX_KEY_CHARACTERS:]


def once(
    store: Store | AsyncStore,
    key: Key = None,
    *,
    name: str | None = None,
    group: str | None = None,
    fingerprint: Fingerprint = whole_body,
    keep_result: bool = False,
    busy_pause_ms: float = BUSY_PAUSE_MS,
    dead_letter_retention_hours: float | None = None,
    observers: Sequence[Observer] = (),
) -> Once:
    """A decorator of handlers: each key has one effect, however often its message is delivered.

        store = AsyncSqlAlchemyStore(async_sessionmaker(engine))

        @once(store, key="transferId")
        async def transfer(message: ReceivedMessage, session: AsyncSession) -> None:
            await session.execute(...)

        consumer.subscribe("transfers", "*", transfer)

    The store's row and the handler's writes are one transaction, which the store begins and ends. A message
    that was handled before is done at once. One that is being handled elsewhere is held back for
    `busy_pause_ms` and uses up no attempt. A handler that fails, or returns `Retry`, leaves nothing behind.

    `key` names a property, or is a function of the message; without it the message's id counts, for delayed
    messages with their occurrence. Keys are unique within consumer group, topic and `name` (the function's
    name; give one of your own, so that renaming the function changes nothing). `group` is for calls outside
    of a consumer. The same key with another `fingerprint` (the body) is a KeyConflict. With `keep_result` a
    duplicate gets the `Reply` of the first delivery. `dead_letter_retention_hours` is for brokers that do not
    tell it: a retention of the store that is shorter is warned of at start.

    For handlers of batches, too: all messages of a call are one transaction, and those that were handled
    before, or are being handled elsewhere, are left out. Raises InvalidArgument.
    """
    return Once(
        store,
        key,
        name=name,
        group=group,
        fingerprint=fingerprint,
        keep_result=keep_result,
        busy_pause_ms=busy_pause_ms,
        dead_letter_retention_hours=dead_letter_retention_hours,
        observers=observers,
    )
