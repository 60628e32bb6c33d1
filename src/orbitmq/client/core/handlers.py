"""Handlers that an application hands to a consumer: handlers, and how they say that a message is to come
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from orbitmq.client.core.checking import check_texts, shown
from orbitmq.client.core.errors import IllegalMessage, InvalidArgument, InvalidResult
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.outgoing_cy import MAX_DELAY_LEVEL, as_bytes
from orbitmq.protocol.names import RESERVED_PROPERTIES


class Retry(Exception):
    """Result of a handler that could not handle its message, returned or raised: deliver it again later.

    `delay_level` 1 to 18 is the wait (1s 5s 10s 30s 1m 2m ...). With 0 the broker chooses, and waits longer
    each time. With -1 the message goes to the group's dead-letter queue at once. Any other exception of a
    handler means `Retry()`. An ordered consumer repeats the message in place, and ignores levels other than
    -1. `raise Retry() from error` puts the reason into the log and the dead letter.

    A handler of batches names the messages to deliver again, `Retry(messages=failed)`: the others are done.
    Without `messages` the whole batch is delivered again.
    """

    def __init__(self, delay_level: int = 0, *, messages: Sequence[ReceivedMessage] | None = None) -> None:
        super().__init__(delay_level)
        if type(delay_level) is not int or not -1 <= delay_level <= MAX_DELAY_LEVEL:
            raise InvalidArgument(
                f"Retry: delay_level has to be from -1 to {MAX_DELAY_LEVEL}, not {shown(delay_level)}"
            )
        if messages is not None and not (
            isinstance(messages, Sequence) and all(isinstance(one, ReceivedMessage) for one in messages)
        ):
            raise InvalidArgument(f"Retry: messages has to be messages of the batch, not {shown(messages)}")
        self.delay_level = delay_level
        self.messages = None if messages is None else tuple(messages)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Retry)
            and other.delay_level == self.delay_level
            and other.messages == self.messages
        )

    def __hash__(self) -> int:
        return hash((Retry, self.delay_level, self.messages))

    def __repr__(self) -> str:
        return f"Retry(delay_level={self.delay_level})"

    def __str__(self) -> str:
        return "the handler asked for a retry"


RETRY = Retry()
"""Deliver the message again; the broker chooses the wait."""


class Reply:
    """Result of a handler that answers a request (`Producer.request`); the message is done.

    If the reply cannot be delivered, for example because the requester has gone, `on_error` is called. The
    same happens if the message is no request.
    """

    __slots__ = ("body", "properties")

    def __init__(
        self, body: bytes | bytearray | memoryview | str, properties: Mapping[str, str] | None = None
    ) -> None:
        self.body = as_bytes(body)
        self.properties: Mapping[str, str] = properties or {}
        check_texts("Reply", "properties", self.properties)
        if not RESERVED_PROPERTIES.isdisjoint(self.properties):
            taken = ", ".join(sorted(RESERVED_PROPERTIES.intersection(self.properties)))
            raise IllegalMessage(f"properties {taken} are RocketMQ's own: choose another name")


Outcome: TypeAlias = Retry | Reply | Literal[True] | None
"""None or True: done."""
Handler: TypeAlias = Callable[[ReceivedMessage], Awaitable[Outcome] | Outcome]
"""An async function, or a plain one, which then runs in a thread."""
BatchHandler: TypeAlias = Callable[
    [list[ReceivedMessage]], Awaitable[Retry | bool | None] | Retry | bool | None
]
"""The same for several messages at a time."""


def checked(outcome: object, messages: Sequence[ReceivedMessage], *, batch: bool) -> Retry | Reply | None:
    """The result of a handler. Raises InvalidResult for what is none: it may be meant as a failure."""
    if outcome is None or outcome is True:
        return None
    if isinstance(outcome, Retry):
        if not set(outcome.messages or ()) <= set(messages):
            raise InvalidResult("a handler returned Retry(messages=...) with messages that it was not given")
        return outcome
    if isinstance(outcome, Reply):
        if batch:
            raise InvalidResult("a handler of batches returned a Reply: use consumer.reply(message, reply)")
        return outcome
    raise InvalidResult(
        f"a handler returned {shown(outcome)}: None or True say that the message is done, Retry() that it is "
        "to come again, Reply(...) answers it"
    )
