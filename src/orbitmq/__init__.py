"""OrbitMQ: messaging for Python teams over Apache RocketMQ's wire protocol and file formats.

Everything an application needs to send and receive is here: `orbitmq.Producer`, `orbitmq.PushConsumer`,
`orbitmq.Message` and their kin; blocking forms of the same are in `orbitmq.sync`. They are loaded when first
asked for, so that `import orbitmq` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.admin import Admin
    from orbitmq.client import (
        FIRST_OFFSET,
        LAST_OFFSET,
        RETRY,
        TIMESTAMP,
        BadAddress,
        BatchPartlySent,
        BrokerUnknown,
        CannotIterate,
        ClientError,
        ClientEvent,
        ClientEventKind,
        Compression,
        DeadLetterPolicy,
        Delivery,
        DeserializationFailed,
        HandleNext,
        HandlerCall,
        HandlerTimeout,
        IllegalMessage,
        IllegalName,
        InvalidArgument,
        InvalidResult,
        Message,
        MessageQueue,
        MessageTooLarge,
        Middleware,
        NoNameServer,
        NoPermission,
        NotRunning,
        Outcome,
        Producer,
        PullConsumer,
        Pulled,
        PushConsumer,
        ReceivedMessage,
        Reply,
        RequestTimeout,
        Retry,
        SeekFailed,
        SendCall,
        SendFailed,
        SendNext,
        SendResult,
        SendStatus,
        Sql,
        TopicNotFound,
        TransactionProducer,
        TransactionResult,
        TransactionState,
        WrongEventLoop,
        run,
        serve,
    )
    from orbitmq.net.errors import CallTimeout, ConnectFailed, ConnectionLost, NetError
    from orbitmq.protocol.errors import BrokerRefused, OrbitError

__version__ = "0.2.0"

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "Admin",
    "BadAddress",
    "BatchPartlySent",
    "BrokerRefused",
    "BrokerUnknown",
    "CallTimeout",
    "CannotIterate",
    "ClientError",
    "ClientEvent",
    "ClientEventKind",
    "Compression",
    "ConnectFailed",
    "ConnectionLost",
    "DeadLetterPolicy",
    "Delivery",
    "DeserializationFailed",
    "HandleNext",
    "HandlerCall",
    "HandlerTimeout",
    "IllegalMessage",
    "IllegalName",
    "InvalidArgument",
    "InvalidResult",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "Middleware",
    "NetError",
    "NoNameServer",
    "NoPermission",
    "NotRunning",
    "OrbitError",
    "Outcome",
    "Producer",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SeekFailed",
    "SendCall",
    "SendFailed",
    "SendNext",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WrongEventLoop",
    "__version__",
    "run",
    "serve",
]

_ELSEWHERE = {
    "orbitmq.admin": ("Admin",),
    "orbitmq.net.errors": ("CallTimeout", "ConnectFailed", "ConnectionLost", "NetError"),
    "orbitmq.protocol.errors": ("BrokerRefused", "OrbitError"),
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = next((module for module, names in _ELSEWHERE.items() if name in names), "orbitmq.client")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
