"""The rows of a proxy: those of Apache's ProxyConfig that have a meaning here, and the network's."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.net.address import is_loopback
from orbitmq.net.balancers import parse_networks
from orbitmq.options import (
    Long,
    OptionError,
    OptionTable,
    Settings,
    option,
)
from orbitmq.options.apache import apache_rows
from orbitmq.options.network import NetworkSettings
from orbitmq.options.reporting import ReportingSettings

_OWNER = "ProxyConfig"
DEFAULT_PORT = 8081


@dataclass(kw_only=True)
class MessageLimits(Settings, owner=_OWNER):
    """Limits of messages."""

    max_message_size: int = option(
        4_194_304, "Longest body of a message; 0 for no limit.", unit="bytes", minimum=0
    )
    enable_message_body_empty_check: bool = option(True, "Refuse messages without a body.")
    max_user_property_size: int = option(
        16_384, "Limit of a message's properties, tag and keys together; 0 for none.", unit="bytes", minimum=0
    )
    user_property_max_num: int = option(128, "Most properties of a message; 0 for no limit.", minimum=0)
    max_message_group_size: int = option(
        64, "A message group has fewer bytes than this; 0 for no limit.", unit="bytes", minimum=0
    )
    max_lite_topic_size: int = option(64, "Longest name of a lite topic.", unit="bytes", minimum=1)
    max_delay_time_mills: Long = option(
        86_400_000, "Longest time until a delayed message is delivered; 0 for no limit.", unit="ms", minimum=0
    )
    max_transaction_recovery_second: Long = option(
        3600, "Longest time until the producer of an open transaction is asked.", unit="s", minimum=0
    )
    enable_topic_message_type_check: bool = option(
        True, "Refuse messages of another type than their topic's (attribute message.type)."
    )


@dataclass(kw_only=True)
class ConsumerLimits(Settings, owner=_OWNER):
    """Times of consumers."""

    min_invisible_time_mills_for_recv: Long = option(
        10_000, "Shortest invisible time of a received message.", unit="ms", minimum=0
    )
    max_invisible_time_mills: Long = option(
        43_200_000, "Longest invisible time of a received message.", unit="ms", minimum=1
    )
    default_invisible_time_mills: Long = option(
        60_000, "Invisible time of messages that the proxy renews by itself.", unit="ms", minimum=1
    )
    grpc_client_consumer_min_long_polling_timeout_millis: Long = option(
        5000, "Shortest wait for messages.", unit="ms", minimum=0
    )
    grpc_client_consumer_max_long_polling_timeout_millis: Long = option(
        20_000, "Longest wait for messages.", unit="ms", minimum=1
    )
    long_polling_reserve_time_in_millis: Long = option(
        100, "A wait for messages ends so long before the call's own deadline.", unit="ms", minimum=0
    )
    grpc_client_consumer_long_polling_batch_size: int = option(
        32, "Messages that a push consumer asks for at a time.", minimum=1, maximum=32
    )
    enable_proxy_auto_renew: bool = option(
        True, "Keep messages of push consumers invisible for as long as their client works on them."
    )
    renew_ahead_time_millis: Long = option(
        10_000, "Renew messages that would become visible within this time.", unit="ms", minimum=1
    )
    renew_max_time_millis: Long = option(
        10_800_000, "Time after which a message is no longer renewed.", unit="ms", minimum=1
    )
    renew_schedule_period_millis: Long = option(
        5000, "Interval of looks for messages to renew.", unit="ms", minimum=10
    )
    max_renew_retry_times: int = option(3, "Failed renewals after which a message is given up.", minimum=1)
    max_lite_renew_num_per_channel: int = option(
        100, "Messages of lite topics that one client may hold; it gets no further ones.", minimum=1
    )
    max_sync_lite_subscription_rate: int = option(
        5000, "Most calls per second that add lite topics; further ones are refused.", minimum=1
    )
    invisible_time_millis_when_clear: Long = option(
        1000, "Invisible time of messages whose client is gone.", unit="ms", minimum=0
    )


@dataclass(kw_only=True)
class AccessSettings(Settings, owner="AuthConfig"):
    """Access control."""

    authentication_enabled: bool = option(
        False, "Take signed calls of the brokers' users only. The proxy's own user has to be a super user."
    )
    authorization_enabled: bool = option(False, "Check the rights of users by the rules of the brokers.")
    inner_client_authentication_credentials: str | None = option(
        None,
        "Keys of the proxy's own user, with which it signs requests to brokers, as JSON: "
        '{"accessKey":"...","secretKey":"..."}.',
        secret=True,
    )
    signature_max_age_seconds: int = option(
        900, "A call that was signed longer ago is refused; 0 for any age.", unit="s", minimum=0, owner=""
    )

    def complete(self) -> None:
        super().complete()
        if self.authorization_enabled and not self.authentication_enabled:
            raise OptionError("authorizationEnabled needs authenticationEnabled: rights are those of users")
        if self.authentication_enabled and not self.inner_client_authentication_credentials:
            raise OptionError(
                "authenticationEnabled needs innerClientAuthenticationCredentials: "
                "the proxy asks the brokers for their users"
            )


@dataclass(kw_only=True)
class ProxySettings(
    NetworkSettings, ReportingSettings, MessageLimits, ConsumerLimits, AccessSettings, owner=_OWNER
):
    """The options of one proxy."""

    grpc_server_port: int = option(
        DEFAULT_PORT, "The port of clients; plain text and TLS are told apart.", minimum=1, maximum=65535
    )
    remoting_listen_port: int = option(
        8080, "The port of clients that speak the remoting protocol; 0 for none.", minimum=0, maximum=65535
    )
    remoting_access_addr: str = option(
        "",
        "Address `host:port` that those clients are told. If empty, the one at which they have connected.",
    )
    admin_listen_port: int = option(
        0,
        "The port of the gRPC service of operators, such as 8083; 0 for none. Where others than this "
        "machine reach it, it needs authenticationEnabled: then super users alone are answered.",
        minimum=0,
        maximum=65535,
        owner="",
    )
    namesrv_addr: str = option("", "Name servers of the brokers, `host:port` separated by `;`.")
    advertised_endpoints: str = option(
        "",
        "Endpoints that clients are told, `host:port` separated by `;`: those of a balancer. If empty, "
        "the host that the client itself named, with the port of this proxy.",
        owner="",
    )
    heartbeat_syncer_topic_cluster_name: str = option(
        "",
        "Cluster whose brokers have the topic over which proxies tell each other of their consumers; empty "
        "to tell and hear nothing. Needed beside Apache's proxies, and to show operators all consumers.",
    )
    heartbeat_syncer_topic_name: str = option(
        "DefaultHeartBeatSyncerTopic", "The topic over which proxies tell each other of their consumers."
    )
    local_serve_addr: str = option(
        "",
        "Address of this proxy, as other proxies are told. If empty, the one at which it reaches the name "
        "server.",
    )
    proxy_protocol_from: str = option(
        "",
        "Balancers that name their clients by the PROXY protocol (version 1 or 2): addresses and networks "
        "separated by `;`. Others are not believed.",
        owner="",
    )
    use_endpoint_port_from_request: bool = option(
        False, "Tell clients the port that they named themselves, not the port of this proxy."
    )
    grpc_max_inbound_message_size: int = option(
        136_314_880, "Longest request of a client.", unit="bytes", minimum=1024
    )
    grpc_client_idle_time_mills: Long = option(
        120_000, "Time without a call after which a client's connection is closed.", unit="ms", minimum=1000
    )
    grpc_connection_max_age_seconds: int = option(
        0,
        "Age at which a connection is closed in order, so that clients spread over new proxies; 0 for never.",
        unit="s",
        minimum=0,
        owner="",
    )
    grpc_shutdown_time_seconds: Long = option(
        30, "Time that open calls have when the proxy stops.", unit="s", minimum=0
    )
    max_clients: int = option(
        20_000, "Most clients with settings at a time; further ones are refused.", minimum=1, owner=""
    )
    max_calls_of_client: int = option(
        1024, "Most calls of one client that are open at a time.", minimum=1, owner=""
    )
    max_held_bytes_of_client: int = option(
        67_108_864, "Most bytes of messages in open sends of one client.", unit="bytes", minimum=1, owner=""
    )
    broker_timeout_ms: Long = option(
        2000, "Longest wait for a broker's answer.", unit="ms", minimum=10, owner=""
    )
    grpc_client_producer_max_attempts: int = option(3, "Attempts of a producer at one send.", minimum=1)
    grpc_client_producer_backoff_initial_millis: Long = option(
        10, "First pause between a producer's attempts.", unit="ms", minimum=0
    )
    grpc_client_producer_backoff_max_millis: Long = option(
        1000, "Longest pause between a producer's attempts.", unit="ms", minimum=0
    )
    grpc_client_producer_backoff_multiplier: int = option(
        2, "Growth of the pauses between a producer's attempts.", minimum=1
    )
    grpc_max_concurrent_calls_per_connection: int = option(
        2048, "Most open calls on one connection.", minimum=1, apache_default="2147483647"
    )
    grpc_proxy_relay_request_timeout_in_seconds: Long = option(
        5, "Time that a client has to answer a command.", unit="s", minimum=1
    )
    channel_expired_in_seconds: int = option(
        60,
        "Time without a sign of life after which a client without a telemetry stream is gone.",
        unit="s",
        minimum=1,
    )
    topic_route_service_cache_refresh_seconds: int = option(
        20, "Time for which routes are kept.", unit="s", minimum=1
    )
    topic_route_service_cache_max_num: int = option(20_000, "Most routes that are kept.", minimum=1)
    topic_config_cache_refresh_seconds: int = option(
        20, "Time for which types of topics are kept.", unit="s", minimum=1
    )
    topic_config_cache_max_num: int = option(20_000, "Most types of topics that are kept.", minimum=1)
    subscription_group_config_cache_refresh_seconds: int = option(
        20, "Time for which groups are kept.", unit="s", minimum=1
    )
    subscription_group_config_cache_max_num: int = option(20_000, "Most groups that are kept.", minimum=1)
    user_cache_refresh_seconds: int = option(
        20, "Time for which users are kept, with their rules.", unit="s", minimum=1
    )
    user_cache_max_num: int = option(20_000, "Most users that are kept.", minimum=1)
    transaction_heartbeat_period_second: int = option(
        20, "Interval of heartbeats to brokers for the producers of transactions.", unit="s", minimum=1
    )
    transaction_heartbeat_batch_num: int = option(
        100, "Most topics of producers in one heartbeat to a broker.", minimum=1
    )

    def complete(self) -> None:
        super().complete()
        try:
            parse_networks(self.proxy_protocol_from)
        except ValueError as error:
            raise OptionError(f"proxyProtocolFrom: {error}") from None
        if self.min_invisible_time_mills_for_recv > self.max_invisible_time_mills:
            raise OptionError("minInvisibleTimeMillsForRecv is longer than maxInvisibleTimeMills")
        if self.admin_listen_port and not self.authentication_enabled and not is_loopback(self.bind_address):
            raise OptionError(
                f"adminListenPort on {self.bind_address} needs authenticationEnabled: "
                "anybody who reaches it could read messages and reset offsets"
            )


PROXY_TABLE = OptionTable(ProxySettings, apache_rows("proxy", "network"))
"""All options of a proxy."""
