"""What can go wrong in a client beside what the network (`net.errors`) and brokers (`protocol.errors`) say.

    ClientError              has the number that Java's client gives the same failure, where there is one
    ├── IllegalMessage       the message itself cannot be sent; nothing left this process
    │   └── MessageTooLarge
    ├── NoNameServer         none of the name servers answered
    ├── TopicNotFound        the name servers know no queue of the topic that would serve
    ├── SendFailed           every try failed; `failures` tells each
    ├── RequestTimeout       a request was sent, and nobody replied in time
    ├── NotRunning           the producer or consumer has not been started, or is closed
    └── CannotIterate        `async for` and handlers were mixed

A topic or group name that no broker takes is `protocol.names.IllegalName`.
"""

from __future__ import annotations

from orbitmq.protocol.errors import OrbitError


class ClientError(OrbitError):
    """A failure on this side."""

    code: int | None = None
    """The number of Java's MQClientException for it."""


class IllegalMessage(ClientError, ValueError):
    """The message cannot be sent as it is; nothing was sent."""

    code = 13


class MessageTooLarge(IllegalMessage):
    """The body, or what a batch would hold at least, is longer than brokers take."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a body of {size_bytes} bytes is over the limit of {limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class NoNameServer(ClientError):
    """None of the name servers answered."""

    code = 10004


class TopicNotFound(ClientError):
    """No queue of the topic is known that could serve the purpose."""

    code = 10005

    def __init__(self, topic: str, why: str = "the name servers do not know it") -> None:
        super().__init__(f"no route to topic {topic}: {why}")
        self.topic = topic


class SendFailed(ClientError):
    """Every try to send failed. Some of them may have stored the message all the same."""

    def __init__(self, topic: str, failures: list[tuple[str, Exception]], code: int) -> None:
        told = "; ".join(f"{broker}: {error}" for broker, error in failures)
        super().__init__(f"message to {topic} not sent after {len(failures)} tries: {told}")
        self.topic = topic
        self.failures = failures
        """Broker name and error of each try, in order."""
        self.code = code


class RequestTimeout(ClientError):
    """A request was sent and nobody replied in time; it may still be handled."""

    code = 10006


class NotRunning(ClientError):
    """The producer or consumer has not been started yet, or has been closed."""


class CannotIterate(ClientError):
    """`async for` needs a subscription without a handler, and a handler needs a topic of its own."""
