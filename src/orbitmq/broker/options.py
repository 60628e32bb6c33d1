"""The rows of a broker: Apache's BrokerConfig, BrokerIdentity and AuthConfig, the store's and the network's.

Every property of Apache's broker is here once: as a field, if code reads it, or in a list with the reason why
it changes nothing or is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.auth.options import AUTH_ROWS, AuthSettings
from orbitmq.broker.filter_options import FilterSettings
from orbitmq.broker.metrics_options import METRICS_ROWS, MetricsOptions
from orbitmq.broker.pop_options import POP_ROWS, PopOptions
from orbitmq.broker.transactions_options import TRANSACTION_ROWS, TransactionOptions
from orbitmq.options import Option, OptionTable, RefusedValue, Status, option, refused, without_effect
from orbitmq.options.network import NETWORK_ROWS, NetworkSettings
from orbitmq.options.reporting import ReportingSettings
from orbitmq.store.option_rows import STORE_ROWS, StoreSettings

VIP_DISTANCE = 2
"""The VIP port is the broker's port less this; the port of replication is one above the broker's."""
_NO_QUEUES = (
    "only shown in the runtime info: requests are handled in the turn they arrive in, no queue holds them"
)


@dataclass(kw_only=True)
class BrokerSettings(
    AuthSettings,
    FilterSettings,
    MetricsOptions,
    NetworkSettings,
    PopOptions,
    ReportingSettings,
    StoreSettings,
    TransactionOptions,
):
    """What one broker is told; handlers read it at every request, so that updates count at once."""

    # Who it is, and who knows it.
    broker_name: str = option(
        "brokerName",
        "String",
        "broker-a",
        "Name of the broker group.",
        owner="BrokerIdentity",
        apache_default="the host's name",
    )
    broker_cluster_name: str = option(
        "brokerClusterName", "String", "DefaultCluster", "Name of the cluster.", owner="BrokerIdentity"
    )
    broker_id: int = option(
        "brokerId", "long", 0, "0 is the master of its group.", owner="BrokerIdentity", minimum=0
    )
    listen_port: int = option(
        "listenPort",
        "int",
        10911,
        "The port clients use; the VIP port is 2 below it, the port of replication 1 above.",
        owner="BrokerConfig NettyServerConfig",
        minimum=VIP_DISTANCE + 1,
        maximum=65534,
    )
    broker_ip1: str | None = option(
        "brokerIP1",
        "String",
        None,
        "The host that routes and message ids carry.",
        apache_default="the first address that is not loopback",
    )
    advertised_port: int | None = option(
        "advertisedPort",
        "int",
        None,
        "The port that routes and message ids carry, where it is not listenPort.",
        owner="",
        minimum=1,
        maximum=65535,
    )
    broker_ip2: str | None = option(
        "brokerIP2",
        "String",
        None,
        "The host that routes name for slaves; brokerIP1 if not set.",
        apache_default="the first address that is not loopback",
    )
    namesrv_addr: str | None = option(
        "namesrvAddr",
        "String",
        None,
        "Name servers to register with, HOST:PORT with `;` between.",
        apache_default="NAMESRV_ADDR of the environment",
    )
    region_id: str = option(
        "regionId", "String", "DefaultRegion", "Property MSG_REGION of every message.", mutable=True
    )
    broker_config_path: str | None = option(
        "brokerConfigPath",
        "String",
        None,
        "The file that options came from.",
        status=Status.NO_EFFECT,
        reason="filled in from --config",
    )

    # Registration.
    register_name_server_period: int = option(
        "registerNameServerPeriod",
        "int",
        30_000,
        "How often the broker registers; held within 10 s and 60 s.",
        unit="ms",
        minimum=1,
    )
    register_broker_timeout_mills: int = option(
        "registerBrokerTimeoutMills",
        "int",
        24_000,
        "How long a name server may take to answer a registration.",
        unit="ms",
        minimum=1,
    )
    force_register: bool = option(
        "forceRegister",
        "boolean",
        True,
        "Register in full every time, not only with name servers whose table is old.",
        mutable=True,
    )
    enable_split_registration: bool = option(
        "enableSplitRegistration",
        "boolean",
        False,
        "Register many topics in several requests.",
        mutable=True,
    )
    split_registration_size: int = option(
        "splitRegistrationSize",
        "int",
        800,
        "Topics in one of several registration requests.",
        unit="topics",
        mutable=True,
        minimum=1,
    )

    # What clients may do.
    broker_permission: int = option(
        "brokerPermission",
        "int",
        6,
        "What clients may do: the sum of 4 (read) and 2 (write).",
        mutable=True,
        minimum=0,
        maximum=7,
    )
    start_accept_send_request_time_stamp: int = option(
        "startAcceptSendRequestTimeStamp",
        "long",
        0,
        "Sends before this time are refused.",
        unit="ms since 1970",
        mutable=True,
    )
    reject_pull_consumer_enable: bool = option(
        "rejectPullConsumerEnable", "boolean", False, "Refuse heartbeats of pull consumers.", mutable=True
    )
    enable_register_producer: bool = option(
        "enableRegisterProducer", "boolean", True, "Keep a list of producers.", mutable=True
    )
    config_black_list: str = option(
        "configBlackList",
        "String",
        "configBlackList;brokerConfigPath",
        "Properties that may not be changed over the network, with `;` between.",
    )

    # Topics and groups.
    auto_create_topic_enable: bool = option(
        "autoCreateTopicEnable",
        "boolean",
        True,
        "Create a topic when something is sent to it.",
        mutable=True,
    )
    default_topic_queue_nums: int = option(
        "defaultTopicQueueNums", "int", 8, "Queues of the topic after which new ones are made.", minimum=1
    )
    auto_create_subscription_group: bool = option(
        "autoCreateSubscriptionGroup", "boolean", True, "Create a group when it is first seen.", mutable=True
    )
    cluster_topic_enable: bool = option(
        "clusterTopicEnable", "boolean", True, "Let clients use the topic named as the cluster."
    )
    broker_topic_enable: bool = option(
        "brokerTopicEnable", "boolean", True, "Let clients use the topic named as the broker."
    )
    trace_topic_enable: bool = option("traceTopicEnable", "boolean", False, "Create the topic of traces.")
    msg_trace_topic_name: str = option(
        "msgTraceTopicName", "String", "RMQ_SYS_TRACE_TOPIC", "Name of the topic of traces."
    )
    validate_system_topic_when_update_topic: bool = option(
        "validateSystemTopicWhenUpdateTopic",
        "boolean",
        True,
        "Refuse to change or delete topics of the system.",
        mutable=True,
    )
    enable_mixed_message_type: bool = option(
        "enableMixedMessageType",
        "boolean",
        False,
        "Accept the topic attribute message.type=MIXED.",
        mutable=True,
    )
    clear_retry_topic_when_delete_topic: bool = option(
        "clearRetryTopicWhenDeleteTopic",
        "boolean",
        True,
        "Delete the POP retry topics of a topic with it.",
        mutable=True,
    )
    enable_split_metadata: bool = option(
        "enableSplitMetadata",
        "boolean",
        True,
        "Answer requests for all topics or groups in pages, to those who can turn them.",
        mutable=True,
    )
    split_metadata_size: int = option(
        "splitMetadataSize",
        "int",
        2000,
        "Topics or groups on a page.",
        unit="entries",
        mutable=True,
        minimum=1,
    )

    enable_broadcast_offset_store: bool = option(
        "enableBroadcastOffsetStore",
        "boolean",
        True,
        "Remember where members of broadcasting groups are, for those that come through a proxy, and store "
        "the smallest of each group as that of GROUP@broadcast.",
        mutable=True,
    )
    broadcast_offset_expire_second: int = option(
        "broadcastOffsetExpireSecond",
        "long",
        120,
        "How long a member is remembered that is gone.",
        unit="s",
        mutable=True,
        minimum=1,
    )
    broadcast_offset_expire_max_second: int = option(
        "broadcastOffsetExpireMaxSecond",
        "long",
        300,
        "How long a member is remembered that is here and does not pull.",
        unit="s",
        mutable=True,
        minimum=1,
    )

    # Pulls.
    long_polling_enable: bool = option(
        "longPollingEnable",
        "boolean",
        True,
        "Hold a pull that finds nothing for as long as it asks.",
        mutable=True,
    )
    slave_read_enable: bool = option(
        "slaveReadEnable",
        "boolean",
        False,
        "Whether pulls of messages that hardly are in memory any more name the slave to go on with (the "
        "group's whichBrokerWhenConsumeSlowly), and others the group's brokerId.",
    )
    short_polling_time_mills: int = option(
        "shortPollingTimeMills",
        "long",
        1000,
        "How long a pull is held otherwise.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    lite_pull_message_enable: bool = option(
        "litePullMessageEnable", "boolean", True, "Serve lite pull consumers.", mutable=True
    )

    # Consumers.
    notify_consumer_ids_changed_enable: bool = option(
        "notifyConsumerIdsChangedEnable",
        "boolean",
        True,
        "Tell the members of a group when its members change.",
        mutable=True,
    )
    use_server_side_reset_offset: bool = option(
        "useServerSideResetOffset",
        "boolean",
        True,
        "Reset offsets in the broker, whether or not consumers are there.",
        mutable=True,
    )
    flush_consumer_offset_interval: int = option(
        "flushConsumerOffsetInterval",
        "int",
        5000,
        "How often consumer offsets are saved.",
        unit="ms",
        minimum=1,
    )
    consumer_offset_update_version_step: int = option(
        "consumerOffsetUpdateVersionStep",
        "long",
        500,
        "Updates of offsets after which their table has a new version.",
        minimum=1,
    )
    delay_offset_update_version_step: int = option(
        "delayOffsetUpdateVersionStep",
        "long",
        200,
        "The same for the table of delayed messages.",
        minimum=1,
    )
    recall_message_enable: bool = option(
        "recallMessageEnable",
        "boolean",
        False,
        "Lets producers take timer messages back before they are delivered.",
        mutable=True,
    )
    allow_recall_when_broker_not_writeable: bool = option(
        "allowRecallWhenBrokerNotWriteable",
        "boolean",
        True,
        "The same while brokerPermission takes no sends.",
        mutable=True,
    )
    channel_expired_timeout: int = option(
        "channelExpiredTimeout",
        "long",
        120_000,
        "A client without a heartbeat for this long is disconnected.",
        unit="ms",
        minimum=1,
    )

    # Traces.
    trace_on: bool = option(
        "traceOn", "boolean", True, "Property TRACE_ON of every message: clients may trace it.", mutable=True
    )

    # Replies.
    store_reply_message_enable: bool = option(
        "storeReplyMessageEnable",
        "boolean",
        True,
        "Store replies, beside passing them on.",
        mutable=True,
    )

    # Shown, no more.
    send_thread_pool_queue_capacity: int = option(
        "sendThreadPoolQueueCapacity",
        "int",
        10_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )
    pull_thread_pool_queue_capacity: int = option(
        "pullThreadPoolQueueCapacity",
        "int",
        100_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )
    lite_pull_thread_pool_queue_capacity: int = option(
        "litePullThreadPoolQueueCapacity",
        "int",
        100_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )
    query_thread_pool_queue_capacity: int = option(
        "queryThreadPoolQueueCapacity",
        "int",
        20_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )
    ack_thread_pool_queue_capacity: int = option(
        "ackThreadPoolQueueCapacity",
        "int",
        100_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )
    end_transaction_pool_queue_capacity: int = option(
        "endTransactionPoolQueueCapacity",
        "int",
        100_000,
        "",
        mutable=True,
        status=Status.NO_EFFECT,
        reason=_NO_QUEUES,
    )

    def complete(self) -> None:
        super().complete()
        if self.broker_id > 0:
            raise RefusedValue(
                "brokerId",
                self.broker_id,
                "a broker with an id above 0 is a slave, and replication is not implemented yet",
                self.sources.get("brokerId", "settings"),
            )


_OTHER_ROWS: list[Option] = [
    *without_effect(
        "requests are handled in the turn they arrive in, on one thread: no pools, no queues before them",
        "BrokerConfig",
        Option("sendMessageThreadPoolNums", "int", None, apache_default="min(cpus,4)"),
        Option("putMessageFutureThreadPoolNums", "int", None, apache_default="min(cpus,4)"),
        Option("pullMessageThreadPoolNums", "int", None, apache_default="16 + cpus*2"),
        Option("litePullMessageThreadPoolNums", "int", None, apache_default="16 + cpus*2"),
        ("ackMessageThreadPoolNums", "int", 16),
        Option("processReplyMessageThreadPoolNums", "int", None, apache_default="16 + cpus*2"),
        Option("queryMessageThreadPoolNums", "int", None, apache_default="8 + cpus"),
        ("adminBrokerThreadPoolNums", "int", 16),
        ("clientManageThreadPoolNums", "int", 32),
        ("consumerManageThreadPoolNums", "int", 32),
        ("loadBalanceProcessorThreadPoolNums", "int", 32),
        Option("heartbeatThreadPoolNums", "int", None, apache_default="min(32, cpus)"),
        ("recoverThreadPoolNums", "int", 32),
        Option(
            "endTransactionThreadPoolNums",
            "int",
            None,
            apache_default="max(8 + cpus*2, sendMessageThreadPoolNums*4)",
        ),
        ("putThreadPoolQueueCapacity", "int", 10_000),
        ("replyThreadPoolQueueCapacity", "int", 10_000),
        ("clientManagerThreadPoolQueueCapacity", "int", 1_000_000),
        ("consumerManagerThreadPoolQueueCapacity", "int", 1_000_000),
        ("heartbeatThreadPoolQueueCapacity", "int", 50_000),
        ("adminBrokerThreadPoolQueueCapacity", "int", 10_000),
        ("loadBalanceThreadPoolQueueCapacity", "int", 100_000),
        ("brokerFastFailureEnable", "boolean", True),
        ("waitTimeMillsInSendQueue", "long", 200),
        ("waitTimeMillsInPullQueue", "long", 5000),
        ("waitTimeMillsInLitePullQueue", "long", 5000),
        ("waitTimeMillsInHeartbeatQueue", "long", 31_000),
        ("waitTimeMillsInTransactionQueue", "long", 3000),
        ("waitTimeMillsInAckQueue", "long", 3000),
        ("waitTimeMillsInAdminBrokerQueue", "long", 5000),
        ("asyncSendEnable", "boolean", True),
    ),
    *without_effect(
        "says how Apache's Java code does something; no client can tell the difference",
        "BrokerConfig",
        ("transferMsgByHeap", "boolean", True),
        ("highSpeedMode", "boolean", False),
        ("isolateLogEnable", "boolean", False),
        ("recoverConcurrently", "boolean", False),
        ("enableFastChannelEventProcess", "boolean", False),
        ("printChannelGroups", "boolean", False),
        ("printChannelGroupsMinNum", "int", 5),
        ("realTimeNotifyConsumerChange", "boolean", True),
        ("compressedRegister", "boolean", False),
        ("compatibleWithOldNameSrv", "boolean", True),
        ("forwardTimeout", "long", 3000),
    ),
    *without_effect(
        "Apache's account and commercial statistics are not kept; the others always are",
        "BrokerConfig",
        ("commercialBaseCount", "int", 1),
        ("commercialSizePerMsg", "int", 4096),
        ("accountStatsEnable", "boolean", True),
        ("accountStatsPrintZeroValues", "boolean", True),
        ("maxStatsIdleTimeInMinutes", "int", -1),
        ("enableDetailStat", "boolean", True),
        ("autoDeleteUnusedStats", "boolean", True),
        ("enableLmqStats", "boolean", False),
    ),
    *without_effect(
        "there are no slaves and no controller yet",
        "BrokerConfig",
        ("sendHeartbeatTimeoutMillis", "int", 1000),
        ("brokerHeartbeatInterval", "int", 1000),
        ("brokerNotActiveTimeoutMillis", "long", 10_000),
        ("syncBrokerMemberGroupPeriod", "int", 1000),
        ("cleanOfflineBrokerInterval", "int", 30_000),
        ("skipPreOnline", "boolean", False),
        ("controllerAddr", "String", ""),
        ("fetchControllerAddrByDnsLookup", "boolean", False),
        ("syncBrokerMetadataPeriod", "long", 5000),
        ("checkSyncStateSetPeriod", "long", 5000),
        ("syncControllerMetadataPeriod", "long", 10_000),
        ("controllerHeartBeatTimeoutMills", "long", 10_000),
        ("brokerElectionPriority", "int", 2_147_483_647),
        ("enableRemoteEscape", "boolean", False),
        ("lockInStrictMode", "boolean", False),
    ),
    *without_effect(
        "who pulls without a heartbeat is not listed as a consumer, so that nothing of it expires",
        "BrokerConfig",
        ("subscriptionExpiredTimeout", "long", 600_000),
    ),
    *without_effect(
        "not implemented yet",
        "BrokerConfig",
        ("disableConsumeIfConsumerReadSlowly", "boolean", False),
        ("consumerFallbehindThreshold", "long", 17_179_869_184),
        ("enableNetWorkFlowControl", "boolean", False),
        ("coldCtrStrategyEnable", "boolean", False),
        ("usePIDColdCtrStrategy", "boolean", True),
        ("cgColdReadThreshold", "long", 3_145_728),
        ("globalColdReadThreshold", "long", 104_857_600),
        ("flushConsumerOffsetHistoryInterval", "int", 60_000),
        ("useStaticSubscription", "boolean", False),
        ("enableSingleTopicRegister", "boolean", False),
        ("updateNameServerAddrPeriod", "int", 120_000),
        ("fetchNamesrvAddrInterval", "long", 10_000),
        ("enableCreateSysGroup", "boolean", True),
    ),
    *without_effect(
        "a place of Apache's installation, of which OrbitMQ has none",
        "BrokerConfig",
        Option("rocketmqHome", "String", None, apache_default="ROCKETMQ_HOME env / rocketmq.home.dir"),
    ),
    *refused(
        "replication is not implemented yet",
        "BrokerConfig",
        ("enableSlaveActingMaster", "boolean", False),
    ),
    *refused(
        "there is no controller to follow yet",
        "BrokerConfig",
        ("enableControllerMode", "boolean", False),
    ),
    *refused(
        "access control 1.0 is gone upstream as well: see authenticationEnabled and authorizationEnabled",
        "BrokerConfig",
        ("aclEnable", "boolean", False),
    ),
    *refused(
        "name servers are found by namesrvAddr alone",
        "BrokerConfig",
        ("fetchNameSrvAddrByDnsLookup", "boolean", False),
        ("fetchNamesrvAddrByAddressServer", "boolean", False),
    ),
    *refused(
        "there are no plug-ins of the store",
        "BrokerConfig",
        ("messageStorePlugIn", "String", ""),
    ),
    *refused(
        "tables are kept in JSON files; RocksDB is not read",
        "BrokerConfig",
        ("configManagerVersion", "String", "v1"),
        ("useSingleRocksDBForAllConfigs", "boolean", False),
    ),
    *refused(
        "a process holds one broker; there is no container",
        "BrokerIdentity",
        ("isBrokerContainer", "boolean", False),
        ("isInBrokerContainer", "boolean", False),
    ),
]

BROKER_TABLE = OptionTable(
    BrokerSettings, _OTHER_ROWS, AUTH_ROWS, METRICS_ROWS, POP_ROWS, STORE_ROWS, NETWORK_ROWS, TRANSACTION_ROWS
)
"""Every option of a broker."""
