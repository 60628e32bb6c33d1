# cython: annotation_typing=False
"""Submitted messages: what becomes of each, and those that go in one request.

Hot: every submitted message passes here three times. `deliveries_cy.pxd` has the types for compiled code.
"""

# mypy: disable-error-code="untyped-decorator,unused-ignore"

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.client.core import outgoing_cy as outgoing
from orbitmq.client.core.message import SendResult
from orbitmq.client.core.outgoing_cy import Message, encoded_properties
from orbitmq.client.sending.batching_cy import ENTRY_BYTES
from orbitmq.client.sending.results import BatchResults
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.records.batch_cy import encode_batch

if cython.compiled:
    from cython.cimports.orbitmq.client.core.outgoing_cy import (  # type: ignore[import-not-found, no-redef]
        Message,
        encoded_properties,
    )


class Delivery:
    """A submitted message: `await delivery` returns its result, or raises the reason of a failure."""

    __slots__ = ("_future", "_is_watched", "_outcome", "_place", "message", "properties", "unique_id")

    # Type checkers of users cannot follow the name that is imported for the compiler as well.
    def __init__(self, message: outgoing.Message, unique_id: str = "", properties: bytes = b"") -> None:
        self.message = message
        self.unique_id = unique_id
        """The id that it is sent under, and that its result names."""
        self.properties = properties
        """Everything that travels beside the body, as it was when the message was submitted."""
        self._outcome: SendResult | BatchResults | Exception | None = None
        self._place = 0
        """Of messages of one batch that is stored, which one it is: nobody may ever ask for its result."""
        self._future: asyncio.Future[SendResult] | None = None
        """Made for those who wait; of most messages nobody asks one by one."""
        self._is_watched = False

    def __await__(self) -> Generator[Any, None, SendResult]:
        self._is_watched = True
        # One who stops waiting does not take the message back.
        return asyncio.shield(self._awaited()).__await__()

    def _awaited(self) -> asyncio.Future[SendResult]:
        future = self._future
        if future is None:
            future = self._future = asyncio.get_running_loop().create_future()
            if self._outcome is not None:
                _set_outcome(future, self._known())
        return future

    def done(self) -> bool:
        """True if the message is stored or has failed."""
        return self._outcome is not None

    def result(self) -> SendResult:
        """The result of the send. Raises the reason of a failure; InvalidStateError before it is done."""
        self._is_watched = True
        outcome = self._known()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def exception(self) -> BaseException | None:
        """The reason of a failure; None if it is stored. Raises InvalidStateError before it is done."""
        self._is_watched = True
        outcome = self._known()
        return outcome if isinstance(outcome, Exception) else None

    def _known(self) -> SendResult | Exception:
        outcome = self._outcome
        if outcome is None:
            raise asyncio.InvalidStateError("the message is still being sent")
        if isinstance(outcome, BatchResults):
            outcome = self._outcome = outcome.of(self._place, self.unique_id)
        return outcome

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Call `function` with this delivery, on the event loop, once it is done."""
        self._is_watched = True
        self._awaited().add_done_callback(lambda _: function(self))

    def when_done(self, function: Callable[[SendResult | BaseException], object]) -> None:
        """Hands the outcome on, without counting as one who asked."""
        self._awaited().add_done_callback(lambda done: function(done.exception() or done.result()))

    def watch(self) -> None:
        """Counts as asking what became of the message."""
        self._is_watched = True

    @property
    def is_unseen(self) -> bool:
        """True if it failed and nobody asked."""
        return not self._is_watched and isinstance(self._outcome, Exception)

    def complete(self, outcome: SendResult | BatchResults | Exception, place: int = 0) -> None:
        """Says what became of the message: of a whole batch, with its place in it."""
        if self._outcome is None:
            self._outcome = outcome
            self._place = place
            if self._future is not None:
                _set_outcome(self._future, self._known())


def _set_outcome(future: asyncio.Future[SendResult], outcome: SendResult | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # `flush` reports those that nobody awaits
    else:
        future.set_result(outcome)


def delivery_of(message: Message, unique_id: str) -> Delivery:
    """A message as it is sent under an id. Raises IllegalMessage for properties that are too long."""
    return Delivery(message, unique_id, encoded_properties(message, unique_id))


@cython.locals(room=cython.Py_ssize_t, first=Delivery, delivery=Delivery, head=Message, message=Message)
def take_batch(waiting: deque[Delivery], batch_size: int, batch_bytes: int) -> list[Delivery]:
    """The first messages of those that wait, which may go together."""
    first = waiting.popleft()
    batch = [first]
    head = first.message
    if not waiting or head.goes_alone or head.topic.startswith(RETRY_PREFIX):
        return batch
    room = batch_bytes - ENTRY_BYTES - len(head.body) - len(first.properties)
    wait_store_ok = head.wait_store_ok
    while waiting and len(batch) < batch_size:
        delivery = waiting[0]
        message = delivery.message
        room -= ENTRY_BYTES + len(message.body) + len(delivery.properties)
        if room < 0 or message.wait_store_ok is not wait_store_ok or message.goes_alone:
            break
        waiting.popleft()
        batch.append(delivery)
    return batch


@cython.locals(delivery=Delivery, message=Message)
def body_of(batch: list[Delivery]) -> bytes:
    """The body of the request for several messages."""
    entries = []
    for delivery in batch:
        message = delivery.message
        entries.append((message.flag, message.body, delivery.properties))
    return encode_batch(entries)


@cython.locals(delivery=Delivery, message=Message, size=cython.Py_ssize_t)
def complete_stored(batch: list[Delivery], results: BatchResults) -> int:
    """Tells every message of a batch that it is stored; gives the size of their bodies in bytes."""
    size = 0
    for place, delivery in enumerate(batch):
        message = delivery.message
        size += len(message.body)
        if delivery._future is None and delivery._outcome is None:  # nobody waits: nearly all are so
            delivery._outcome = results
            delivery._place = place
        else:
            delivery.complete(results, place)
    return size
