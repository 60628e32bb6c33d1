"""Observation of sends and handlers, for traces and metrics: the option `telemetry` of every client.

`orbitmq.telemetry` has the one for OpenTelemetry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from orbitmq.client.core.message import Message, ReceivedMessage, SendResult


class Sending(Protocol):
    """One send that is observed, of one message or several."""

    messages: Sequence[Message]
    """Messages that are sent in place of those given: copies with properties that carry the context."""

    def sent(self, results: Sequence[SendResult]) -> None:
        """Every message is stored."""

    def failed(self, error: BaseException) -> None:
        """The send ended with an exception."""


class Processing(Protocol):
    """One call of a handler that is observed."""

    def processed(self, retried: int, error: BaseException | None) -> None:
        """The handler has ended; `retried` of its messages come again, because of `error` if it raised."""


@runtime_checkable
class Telemetry(Protocol):
    """Hears of sends and handlers. An exception of it ends the send or the delivery: it should raise
    nothing.
    """

    def sending(self, operation: str, messages: Sequence[Message]) -> Sending:
        """A send begins: `operation` is the name of the producer's method."""

    def processing(self, group: str, messages: Sequence[ReceivedMessage]) -> Processing:
        """A handler is called; `processed` is called in the same task."""


@contextlib.contextmanager
def observed(telemetry: Telemetry, operation: str, messages: Sequence[Message]) -> Iterator[Sending]:
    """Has telemetry hear of a send that ends with an exception."""
    sending = telemetry.sending(operation, messages)
    try:
        yield sending
    except BaseException as error:
        sending.failed(error)
        raise
