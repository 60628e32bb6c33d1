"""Handlers that an application hands to a consumer: handlers, and how they say that a message is to come
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from orbitmq.client.core.checking import check_number, check_texts, shown
from orbitmq.client.core.errors import IllegalMessage, InvalidArgument, InvalidResult
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.outgoing_cy import MAX_DELAY_LEVEL, as_bytes
from orbitmq.protocol.names import RESERVED_PROPERTIES

MAX_HOLD_BACK_MS = 60_000
"""The longest pause of `HoldBack`: a message that waits for longer belongs to the broker again."""


class Retry(Exception):
    """Result of a handler that could not handle its message, returned or raised: deliver it again later.

    `delay_level` 1 to 18 is the wait (1s 5s 10s 30s 1m 2m ...). With 0 the broker chooses, and waits longer
    each time. With -1 the message goes to the group's dead-letter queue at once. Any other exception of a
    handler means `Retry()`. `raise Retry() from error` puts the reason into the log and the dead letter.

    An ordered consumer repeats the message in place after that wait, and its queue or key waits too.

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


class HoldBack(Retry):
    """Result of a handler, returned or raised: call the handler again after a pause, in this consumer.

    No attempt is used up, and the broker hears nothing: the message stays with this consumer, as if it had
    not been handed out yet, and if the consumer goes away, the next one gets it. For what will be over soon,
    such as a lock that another process holds. `pause_ms` is the wait, from 1 ms to 60 s. An ordered consumer
    waits with the whole queue, or with the key.

    A handler of batches names the messages to hold back, `HoldBack(100, messages=busy, others=outcome)`;
    `others` is the result for the rest: None, True or a `Retry`. `raise HoldBack(100) from error` reports the
    reason.
    """

    def __init__(
        self,
        pause_ms: float,
        *,
        messages: Sequence[ReceivedMessage] | None = None,
        others: Retry | Literal[True] | None = None,
    ) -> None:
        super().__init__(messages=messages)
        check_number("HoldBack", "pause_ms", pause_ms, 1, MAX_HOLD_BACK_MS)
        if isinstance(others, HoldBack) or not (
            others is None or others is True or isinstance(others, Retry)
        ):
            raise InvalidArgument(f"HoldBack: others has to be None, True or a Retry, not {shown(others)}")
        if others is not None and messages is None:
            raise InvalidArgument("HoldBack: others goes with messages=, the messages to hold back")
        self.pause_ms = pause_ms
        self.others = others

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HoldBack) and (other.pause_ms, other.messages, other.others) == (
            self.pause_ms,
            self.messages,
            self.others,
        )

    def __hash__(self) -> int:
        return hash((HoldBack, self.pause_ms, self.messages))

    def __repr__(self) -> str:
        return f"HoldBack(pause_ms={self.pause_ms:g})"

    def __str__(self) -> str:
        return "the handler asked to be called again soon"


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


@runtime_checkable
class ConsumerHandler(Protocol):
    """A handler that depends on its consumer: `subscribe` asks it for the function to call.

    `orbitmq.idempotence.once` makes such handlers.
    """

    def for_group(self, group: str, *, batch: bool) -> Handler | BatchHandler:
        """The handler for one consumer group; `batch` is True if it gets lists. Raises InvalidArgument."""


@runtime_checkable
class BackgroundHandler(Protocol):
    """A handler with work of its own beside its calls, such as the clean-up of a table."""

    async def run_in_background(self, dead_letter_retention_ms: Callable[[], Awaitable[int | None]]) -> None:
        """Runs from the start of its consumer, and is cancelled at its end.

        `dead_letter_retention_ms` asks the brokers for how long they keep dead letters.
        """


def checked(outcome: object, messages: Sequence[ReceivedMessage], *, batch: bool) -> Retry | Reply | None:
    """The result of a handler. Raises InvalidResult for what is none: it may be meant as a failure."""
    if outcome is None or outcome is True:
        return None
    if isinstance(outcome, Retry):
        rest = outcome.others if isinstance(outcome, HoldBack) else None
        named = (outcome.messages or ()) + ((rest.messages or ()) if isinstance(rest, Retry) else ())
        if not set(named) <= set(messages):
            raise InvalidResult(
                f"a handler returned {type(outcome).__name__}(messages=...) with messages that it was not "
                "given"
            )
        return outcome
    if isinstance(outcome, Reply):
        if batch:
            raise InvalidResult("a handler of batches returned a Reply: use consumer.reply(message, reply)")
        return outcome
    raise InvalidResult(
        f"a handler returned {shown(outcome)}: None or True say that the message is done, Retry() that it is "
        "to come again, Reply(...) answers it"
    )
