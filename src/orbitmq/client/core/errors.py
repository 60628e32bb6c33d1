"""Errors of a client beside those of the network (`net.errors`) and of brokers (`protocol.errors`).

    ClientError              has the number that Java's client gives the same failure, where there is one
    ├── InvalidArgument      of a wrong type or out of range; raised where it was given
    │   └── IllegalMessage   the message itself cannot be sent; nothing left this process
    │       └── MessageTooLarge
    ├── TopicNotFound        the name servers know no queue of the topic that would serve
    │   └── NoMasterNow      it has queues, and none of their brokers has a master now
    ├── SendFailed           every try failed; `failures` has the reasons
    ├── RequestTimeout       a request was sent, and no reply came in time
    ├── NotRunning           the producer or consumer has not been started, or is closed
    │   └── WrongEventLoop   it belongs to another event loop
    ├── CannotIterate        `async for` and handlers were mixed, or nothing is subscribed to
    ├── InvalidResult        a handler returned something that is no result: the message comes again
    ├── UnreadableBody       a message came whose body cannot be inflated
    │   └── BodyTooLarge     to more than `max_inflated_body_bytes`
    ├── LiteQuotaExceeded    more lite topics than the consumer, or the broker, takes
    ├── SeekFailed           a queue could not be moved to another offset
    ├── CancelledFromOutside somebody cancelled tasks of the client, which begin again; in `errors` alone
    ├── FiltersDiffer        members of the group read a topic by different filters; in `errors` alone
    ├── HandlerTimeout       a handler took longer than it may: the message comes again
    ├── MessageStays         an ordered consumer's last attempt has failed, and the policy says "stay"
    └── PermanentFailure     a retry would fail in the same way: the message is given up at once

A topic or group name that no broker takes is `protocol.names.IllegalName`, an address that is not `host:port`
`net.errors.BadAddress`. If no name server answers, it is `net.errors.NoNameServer`.
"""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.help_pages import UNKNOWN_TOPICS, did_you_mean


class ClientError(OrbitError):
    """A failure on this side."""

    code: int | None = None
    """The number of Java's MQClientException for it."""


class InvalidArgument(ClientError, ValueError, TypeError):
    """An argument is of a type, or has a value, that cannot be meant; nothing was done."""


class IllegalMessage(InvalidArgument):
    """The message cannot be sent as it is; nothing was sent."""

    code = 13


class MessageTooLarge(IllegalMessage):
    """The body, or what a batch would hold at least, is longer than brokers take."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a body of {size_bytes} bytes is over the limit of {limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class TopicNotFound(ClientError):
    """No queue of the topic is known that could serve the purpose."""

    code = 10005

    def __init__(
        self, topic: str, why: str = "the name servers do not know it", near: Sequence[str] = ()
    ) -> None:
        where = f" (see {UNKNOWN_TOPICS})" if type(self) is TopicNotFound else ""
        super().__init__(f"no route to topic {topic}: {why}{did_you_mean(near)}{where}")
        self.topic = topic
        self.near = tuple(near)
        """Topics with names that are like this one."""


class NoMasterNow(TopicNotFound):
    """The topic has queues, and none of their brokers has a master now: one may be elected soon."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic, "none of its brokers has a master now")


SHOWN_FAILURES = 3


class SendFailed(ClientError):
    """Every try to send failed. Some of them may have stored the message all the same."""

    def __init__(self, topic: str, failures: list[tuple[str, Exception]], code: int) -> None:
        shown = "; ".join(f"{broker}: {error}" for broker, error in failures[-SHOWN_FAILURES:])
        if len(failures) > SHOWN_FAILURES:
            shown = f"the last {SHOWN_FAILURES}: {shown}"
        super().__init__(f"message to {topic} not sent after {len(failures)} tries: {shown}")
        self.topic = topic
        self.failures = failures
        """Broker name and error of each try, in order."""
        self.code = code


class RequestTimeout(ClientError):
    """A request was sent, and no reply came in time; it may still be handled."""

    code = 10006


class NotRunning(ClientError):
    """The producer or consumer has not been started yet, or has been closed."""


class WrongEventLoop(NotRunning, RuntimeError):
    """A producer or consumer was used in another event loop than the one in which it was started."""


class CannotIterate(ClientError):
    """`async for` needs a subscription without a handler, and a handler needs a topic of its own."""


class InvalidResult(ClientError, TypeError):
    """A handler returned something else than None, True, `Retry` or `Reply`: the message comes again."""


class DeserializationFailed(ClientError, ValueError):
    """A body is not what the serializer of its subscription takes; `__cause__` says why."""


class UnreadableBody(ClientError, ValueError):
    """The body of a message that came cannot be inflated; `__cause__` says why."""


class BodyTooLarge(UnreadableBody):
    """The body of a message that came inflates to more than `max_inflated_body_bytes`."""

    def __init__(self, text: str, limit_bytes: int) -> None:
        super().__init__(text)
        self.limit_bytes = limit_bytes


class LiteQuotaExceeded(ClientError):
    """A subscription to lite topics exceeds what the consumer or the broker takes; nothing has changed."""


class SeekFailed(ClientError):
    """A queue could not be moved to another offset: it continues where the broker has it."""


class PermanentFailure(ClientError):
    """A handler cannot handle its message, and a retry would fail in the same way.

    The message goes to the dead letters at once, with this error as the reason. Handlers may raise it, and
    classes of an application may derive from it.
    """


class HandlerTimeout(ClientError):
    """A handler worked on a message for longer than it may: the message comes again."""


class MessageStays(ClientError):
    """The last attempt of a message has failed, and the policy keeps it: its queue, or its key, waits."""

    def __init__(self, topic: str, keys: Sequence[str], attempts: int) -> None:
        super().__init__(
            f"a message of {topic} (keys {' '.join(keys) or '-'}) has failed {attempts} times and stays: "
            "what follows waits until the handler succeeds or gives it up, or the group's offset is reset"
        )


class CancelledFromOutside(ClientError):
    """Something outside of the client has cancelled its tasks. They begin again a second later.

    A send that was under way fails with it: whether the message is stored is not known.
    """


class FiltersDiffer(ClientError):
    """Members of the group read a topic by different filters, each the queues that it owns: what its filter
    passes over is lost to the group.
    """

    def __init__(self, group: str, topic: str, filters: str) -> None:
        super().__init__(
            f"members of group {group} read {topic} by different filters: {filters}. Give all one filter, or "
            "a group each"
        )
        self.group = group
        self.topic = topic
