"""OrbitMQ: messaging for Python teams over Apache RocketMQ's wire protocol and file formats.

Everything an application needs to send and receive is here: `orbitmq.Producer`, `orbitmq.PushConsumer`,
`orbitmq.Message` and their kin; blocking forms of the same are in `orbitmq.sync`. They are loaded when first
asked for, so that `import orbitmq` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.client import (
        FIRST_OFFSET,
        LAST_OFFSET,
        RETRY,
        TIMESTAMP,
        BatchPartlySent,
        ClientError,
        Compression,
        IllegalMessage,
        Message,
        MessageQueue,
        MessageTooLarge,
        NoNameServer,
        NotRunning,
        Producer,
        PullConsumer,
        Pulled,
        PushConsumer,
        ReceivedMessage,
        Reply,
        RequestTimeout,
        Retry,
        SendFailed,
        SendResult,
        SendStatus,
        Sql,
        TopicNotFound,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from orbitmq.net.errors import CallTimeout, ConnectFailed, ConnectionLost, NetError
    from orbitmq.protocol.errors import BrokerRefused, OrbitError

__version__ = "0.1.0"

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "BatchPartlySent",
    "BrokerRefused",
    "CallTimeout",
    "ClientError",
    "Compression",
    "ConnectFailed",
    "ConnectionLost",
    "IllegalMessage",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "NetError",
    "NoNameServer",
    "NotRunning",
    "OrbitError",
    "Producer",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "__version__",
]

_ELSEWHERE = {
    "orbitmq.net.errors": ("CallTimeout", "ConnectFailed", "ConnectionLost", "NetError"),
    "orbitmq.protocol.errors": ("BrokerRefused", "OrbitError"),
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _ELSEWHERE.items() if name in names), "orbitmq.client")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
