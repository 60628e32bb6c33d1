"""News of clients between proxies: bodies of the messages of a topic that all of them read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from orbitmq.protocol.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.codes import LanguageCode
from orbitmq.protocol.schema.json_body import JsonBody, Long


class HeartbeatType(StrEnum):
    """A client is there, or has gone."""

    REGISTER = "REGISTER"
    UNREGISTER = "UNREGISTER"


class ChannelType(StrEnum):
    """The protocol that a client speaks with its proxy."""

    GRPC_V2 = "GRPC_V2"
    REMOTING = "REMOTING"


@dataclass(slots=True)
class RemoteChannel(JsonBody):
    """A client's connection to another proxy."""

    remote_proxy_ip: str = ""
    remote_address: str = ""
    """The client's end, `host:port`."""
    local_address: str = ""
    """The proxy's end, `host:port`."""
    type: ChannelType | None = None
    extend_attribute: str | None = None
    """JSON: the settings of a gRPC client, the subscriptions of another one."""

    @property
    def key(self) -> str:
        """By which Apache's proxies tell connections apart."""
        kind = "null" if self.type is None else self.type.value
        return f"{self.remote_proxy_ip}@{self.remote_address}@{self.local_address}@{kind}"


@dataclass(slots=True)
class HeartbeatSyncerData(JsonBody):
    """One consumer of one proxy, as it registers or leaves."""

    heartbeat_type: HeartbeatType | None = None
    client_id: str = ""
    language: LanguageCode | None = None
    version: int = 0
    last_update_timestamp: Long = 0
    subscription_data_set: list[SubscriptionData] | None = field(default_factory=list)
    group: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    local_proxy_id: str = ""
    """Of the proxy that says so: it passes over what it has said itself."""
    channel_data: str = ""
    """The `RemoteChannel`, as JSON."""
