"""The name server's options: every property of Apache's name server, read here or listed with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import OptionTable, Settings, option, refused, without_effect

__all__ = ["NAMESRV_OPTIONS", "NEVER_OVER_THE_NETWORK", "NameServerSettings"]

NEVER_OVER_THE_NETWORK = "configBlackList;configStorePath;kvConfigPath;rocketmqHome"
"""What UPDATE_NAMESRV_CONFIG may never change, whatever the black list says: it would move files."""


@dataclass(kw_only=True)
class NameServerSettings(Settings):
    """What a name server's code reads."""

    kv_config_path: str | None = option(
        "kvConfigPath",
        "String",
        None,
        "Where the KV configuration is kept.",
        owner="NamesrvConfig",
        apache_default="$HOME/namesrv/kvConfig.json; here kvConfig.json in the data folder",
    )
    config_store_path: str | None = option(
        "configStorePath",
        "String",
        None,
        "Where UPDATE_NAMESRV_CONFIG writes the changed options; a start reads it if --config names it.",
        owner="NamesrvConfig",
        apache_default="$HOME/namesrv/namesrv.properties; here namesrv.properties in the data folder",
    )
    config_black_list: str = option(
        "configBlackList",
        "String",
        "configBlackList;configStorePath;kvConfigPath",
        "Options that UPDATE_NAMESRV_CONFIG may not change, separated by semicolons.",
        owner="NamesrvConfig",
    )
    order_message_enable: bool = option(
        "orderMessageEnable",
        "boolean",
        False,
        "Routes name the brokers of ordered topics, as the KV namespace ORDER_TOPIC_CONFIG has them.",
        owner="NamesrvConfig",
        mutable=True,
    )
    return_order_topic_config_to_broker: bool = option(
        "returnOrderTopicConfigToBroker",
        "boolean",
        True,
        "Registrations are answered with the KV namespace ORDER_TOPIC_CONFIG.",
        owner="NamesrvConfig",
        mutable=True,
    )
    scan_not_active_broker_interval: int = option(
        "scanNotActiveBrokerInterval",
        "long",
        5000,
        "How often brokers that gave no sign of life are looked for.",
        owner="NamesrvConfig",
        unit="ms",
        minimum=1,
    )
    support_acting_master: bool = option(
        "supportActingMaster",
        "boolean",
        False,
        "Routes show the smallest slave as master where a group without one allows it.",
        owner="NamesrvConfig",
        mutable=True,
    )
    enable_all_topic_list: bool = option(
        "enableAllTopicList",
        "boolean",
        True,
        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER is answered.",
        owner="NamesrvConfig",
        mutable=True,
    )
    enable_topic_list: bool = option(
        "enableTopicList",
        "boolean",
        True,
        "Topic lists by cluster and by unit are answered.",
        owner="NamesrvConfig",
        mutable=True,
    )
    notify_min_broker_id_changed: bool = option(
        "notifyMinBrokerIdChanged",
        "boolean",
        False,
        "Members of a broker group hear of a new smallest id.",
        owner="NamesrvConfig",
        mutable=True,
    )
    need_wait_for_service: bool = option(
        "needWaitForService",
        "boolean",
        False,
        "Routes are refused in the first seconds, until all brokers can have registered.",
        owner="NamesrvConfig",
        mutable=True,
    )
    wait_seconds_for_service: int = option(
        "waitSecondsForService",
        "int",
        45,
        "How many seconds that is.",
        owner="NamesrvConfig",
        unit="s",
        mutable=True,
        minimum=0,
    )
    delete_topic_with_broker_registration: bool = option(
        "deleteTopicWithBrokerRegistration",
        "boolean",
        False,
        "A registration takes away the topics that it does not name.",
        owner="NamesrvConfig",
        mutable=True,
    )
    bind_address: str | None = option(
        "bindAddress",
        "String",
        None,
        "The address listened on; --listen goes before it.",
        owner="NettyServerConfig",
        apache_default="0.0.0.0; here loopback, unless told otherwise",
    )
    listen_port: int = option(
        "listenPort",
        "int",
        9876,
        "The port listened on; --port goes before it.",
        owner="NettyServerConfig",
        minimum=0,
        maximum=65535,
    )
    server_channel_max_idle_time_seconds: int = option(
        "serverChannelMaxIdleTimeSeconds",
        "int",
        120,
        "A connection on which nothing moved for so long is closed.",
        owner="NettyServerConfig",
        unit="s",
        minimum=1,
    )
    server_socket_backlog: int = option(
        "serverSocketBacklog",
        "int",
        1024,
        "Connections that the system holds until they are taken.",
        owner="NettyServerConfig",
        minimum=1,
    )


_ONE_LOOP = "one event loop handles every request; there are no thread pools whose size could matter"
_BOUNDED_PER_CONNECTION = "what a connection may have in flight is bounded by its own buffers"

_OTHERS = (
    without_effect(
        "there is no installation folder of this kind; files are in the data folder",
        "NamesrvConfig",
        ("rocketmqHome", "String", None),
    ),
    without_effect(
        "it names the environment that clusterTest asks, which is refused",
        "NamesrvConfig",
        ("productEnvName", "String", "center"),
    ),
    refused(
        "asking another environment's name servers for unknown topics is not supported",
        "NamesrvConfig",
        ("clusterTest", "boolean", False),
    ),
    refused(
        "there is no controller yet that could run inside the name server",
        "NamesrvConfig",
        ("enableControllerInNamesrv", "boolean", False),
    ),
    without_effect(
        _ONE_LOOP,
        "NamesrvConfig",
        ("clientRequestThreadPoolNums", "int", 8),
        ("defaultThreadPoolNums", "int", 16),
        ("clientRequestThreadPoolQueueCapacity", "int", 50000),
        ("defaultThreadPoolQueueCapacity", "int", 10000),
    ),
    without_effect(
        "a broker that unregisters is taken out at once; nothing is queued",
        "NamesrvConfig",
        ("unRegisterBrokerQueueCapacity", "int", 3000),
    ),
    without_effect(
        _ONE_LOOP,
        "NettyServerConfig",
        ("serverWorkerThreads", "int", 8),
        ("serverCallbackExecutorThreads", "int", 0),
        ("serverSelectorThreads", "int", 3),
        ("serverNettyWorkerGroupEnable", "boolean", True),
    ),
    without_effect(
        _BOUNDED_PER_CONNECTION,
        "NettyServerConfig",
        ("serverOnewaySemaphoreValue", "int", 256),
        ("serverAsyncSemaphoreValue", "int", 64),
        ("writeBufferHighWaterMark", "int", 0),
        ("writeBufferLowWaterMark", "int", 0),
    ),
    without_effect(
        "the system sizes socket buffers as traffic needs",
        "NettyServerConfig",
        ("serverSocketSndBufSize", "int", 0),
        ("serverSocketRcvBufSize", "int", 0),
    ),
    without_effect(
        "it is about Netty's buffers",
        "NettyServerConfig",
        ("serverPooledByteBufAllocatorEnable", "boolean", True),
    ),
    without_effect(
        "a stop is always graceful, and as short as its connections allow",
        "NettyServerConfig",
        ("enableShutdownGracefully", "boolean", False),
        ("shutdownWaitTimeSeconds", "int", 30),
    ),
    without_effect(
        "the event loop chooses the best way to wait by itself",
        "NettyServerConfig",
        ("useEpollNativeSelector", "boolean", False),
    ),
)

NAMESRV_OPTIONS: OptionTable[NameServerSettings] = OptionTable(NameServerSettings, *_OTHERS)
"""Every row."""
