"""The rows of Apache's NettyServerConfig, which brokers and name servers have in common."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options.declare import option, without_effect
from orbitmq.options.option import Option
from orbitmq.options.tls import TlsSettings

_OWNER = "NettyServerConfig"


@dataclass(kw_only=True)
class NetworkSettings(TlsSettings):
    """What a server listens on, and how much of it."""

    bind_address: str = option(
        "bindAddress",
        "String",
        "127.0.0.1",
        "The address listened on; 0.0.0.0 or :: for all of them.",
        owner=_OWNER,
        apache_default="0.0.0.0",
    )
    server_channel_max_idle_time_seconds: int = option(
        "serverChannelMaxIdleTimeSeconds",
        "int",
        120,
        "A connection on which nothing moves for this long is closed.",
        owner=_OWNER,
        unit="s",
        minimum=1,
    )
    server_socket_backlog: int = option(
        "serverSocketBacklog",
        "int",
        1024,
        "Connections that may wait to be accepted.",
        owner=_OWNER,
        minimum=1,
    )
    max_connections: int = option(
        "maxConnections",
        "int",
        20_000,
        "Connections held at once; one more is closed as soon as it is accepted.",
        owner="",
        minimum=1,
    )


NETWORK_ROWS: list[Option] = [
    *without_effect(
        "the network runs on one event loop: no threads, semaphores or buffer pools to size",
        "NettyServerConfig",
        ("serverWorkerThreads", "int", 8),
        ("serverCallbackExecutorThreads", "int", 0),
        ("serverSelectorThreads", "int", 3),
        ("serverOnewaySemaphoreValue", "int", 256),
        ("serverAsyncSemaphoreValue", "int", 64),
        ("serverNettyWorkerGroupEnable", "boolean", True),
        ("serverPooledByteBufAllocatorEnable", "boolean", True),
        ("useEpollNativeSelector", "boolean", False),
        ("writeBufferHighWaterMark", "int", 0),
        ("writeBufferLowWaterMark", "int", 0),
        ("enableShutdownGracefully", "boolean", False),
        ("shutdownWaitTimeSeconds", "int", 30),
    ),
    *without_effect(
        "the operating system sizes the buffers of sockets",
        "NettyServerConfig",
        ("serverSocketSndBufSize", "int", 0),
        ("serverSocketRcvBufSize", "int", 0),
    ),
]
