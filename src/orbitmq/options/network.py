"""The rows of Apache's NettyServerConfig that code reads; all servers have them."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options.declare import option
from orbitmq.options.tls import TlsSettings

_OWNER = "NettyServerConfig"


@dataclass(kw_only=True)
class NetworkSettings(TlsSettings, owner="NettyServerConfig"):
    """Address and limits of a server's connections."""

    bind_address: str = option(
        "127.0.0.1", "Address to listen on; 0.0.0.0 or :: for all addresses.", apache_default="0.0.0.0"
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "Time without traffic after which a connection is closed.", unit="s", mutable=True, minimum=1
    )
    server_socket_backlog: int = option(1024, "Connections that may wait to be accepted.", minimum=1)
    max_connections: int = option(
        20_000,
        "Maximum of open connections. Further ones are closed as soon as they are accepted.",
        minimum=1,
        owner="",
    )
