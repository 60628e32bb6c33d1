"""Code of the application around every send and every call of a handler: the option `middleware`.

The first middleware of the list is the outermost: it begins first and ends last. `orbitmq.telemetry` has the
one for OpenTelemetry.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from orbitmq.client.core.checking import check_texts, shown
from orbitmq.client.core.errors import InvalidArgument, InvalidResult
from orbitmq.client.core.handlers import Outcome
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult, check_message


class SendCall:
    """One send, of one message or several."""

    __slots__ = ("group", "messages", "operation")

    def __init__(self, operation: str, group: str, messages: Sequence[Message]) -> None:
        self.operation = operation
        """The name of the producer's method: `send`, `submit`, `send_batch`, `send_all` (a call for each
        batch), `send_oneway`, `request`, `send_half` (of a transaction)."""
        self.group = group
        """The producer group."""
        self.messages = messages
        """The messages to send. Middleware may replace them by as many others for the same topics."""

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Add properties to every message. The caller's own messages stay as they are."""
        check_texts("add_properties", "properties", properties)
        carried = []
        for message in self.messages:
            message = copy.copy(message)
            message.properties = {**message.properties, **properties}
            carried.append(message)
        self.messages = carried


class HandlerCall:
    """One call of a handler, with one message or a batch."""

    __slots__ = ("group", "messages")

    def __init__(self, group: str, messages: Sequence[ReceivedMessage]) -> None:
        self.group = group
        """The consumer group."""
        self.messages = messages
        """The messages of the call, all of one topic. Middleware may set their `body`."""


SendNext: TypeAlias = Callable[[], Awaitable[Sequence[SendResult]]]
HandleNext: TypeAlias = Callable[[], Awaitable[Outcome]]


class Middleware:
    """Wraps sends and handlers: override one method or both.

        class Timing(Middleware):
            async def handle(self, call: HandlerCall, call_next: HandleNext) -> Outcome:
                began = time.perf_counter()
                try:
                    return await call_next()
                finally:
                    print(call.messages[0].topic, time.perf_counter() - began)

        consumer = PushConsumer("billing", middleware=[Timing()])

    The methods run on the client's event loop, many at a time, and must not block it. One object may serve
    several clients.
    """

    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        """Send the messages of `call`, and return a result for each (for `send_oneway` none).

        `call_next` leads to the next middleware and at last to the broker; without it nothing is sent, and
        called twice it sends twice. It raises what the producer's method would raise. The
        producer's method (of a submitted message: its delivery) raises what this method raises.
        """
        return await call_next()

    async def handle(self, call: HandlerCall, call_next: HandleNext) -> Outcome:
        """Call the handler, and return its result: None, a `Retry` or a `Reply`.

        `call_next` leads to the next middleware and at last to the handler; without it the handler does not
        run. A `Retry` that the handler raised is returned, any other exception is raised, HandlerTimeout
        among them. The result or exception of this method counts as the handler's.
        """
        return await call_next()


async def send_through(
    middleware: Sequence[Middleware],
    call: SendCall,
    send: Callable[[list[Message]], Awaitable[list[SendResult]]],
) -> list[SendResult]:
    """The results of a send that passes all middleware.

    Raises what they raise; InvalidArgument for messages of another number or topic than were given,
    InvalidResult for another number of results than the send has.
    """
    topics = [message.topic for message in call.messages]
    count = len(topics)
    wanted = 0 if call.operation == "send_oneway" else count

    async def last() -> Sequence[SendResult]:
        if len(call.messages) != count:
            raise InvalidArgument(
                f"middleware: {call.operation} has {count} messages, not {len(call.messages)}: it may "
                "replace messages, and neither add nor leave out any"
            )
        for message, topic in zip(call.messages, topics, strict=True):
            check_message(message)
            if message.topic != topic:  # its queue may have been chosen already
                raise InvalidArgument(f"middleware: a message for {topic} was sent to {message.topic}")
        return await send(list(call.messages))

    step: SendNext = last
    for one in reversed(middleware):
        step = functools.partial(one.send, call, step)
    results = await step()
    if not isinstance(results, Sequence) or len(results) != wanted:
        raise InvalidResult(
            f"a middleware returned {shown(results)} from {call.operation}: return what call_next returned, "
            f"{wanted} results"
        )
    return list(results)


async def handle_through(middleware: Sequence[Middleware], call: HandlerCall, handle: HandleNext) -> Outcome:
    """The result of a handler, through all middleware. Raises what they raise."""
    step = handle
    for one in reversed(middleware):
        step = functools.partial(one.handle, call, step)
    return await step()
