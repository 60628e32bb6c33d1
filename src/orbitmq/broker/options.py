"""The rows of a broker: Apache's BrokerConfig, BrokerIdentity and AuthConfig, the store's and the network's.

A property of Apache's broker that no code reads is a row of `options/apache.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.fast_failure import FastFailureOptions
from orbitmq.broker.filter.options import FilterSettings
from orbitmq.broker.ha.options import (
    ControllerModeOptions,
    GroupOptions,
    ReplicationOptions,
)
from orbitmq.broker.lite.options import LiteOptions
from orbitmq.broker.offset.options import UpkeepOptions
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.stats.options import MetricsOptions
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.options import Long, OptionTable, Status, option
from orbitmq.options.apache import apache_rows
from orbitmq.options.network import NetworkSettings
from orbitmq.options.reporting import ReportingSettings
from orbitmq.store.option_rows import StoreSettings

VIP_DISTANCE = 2
"""The VIP port is the broker's port less this; the port of replication is one above the broker's."""
_NO_QUEUES = (
    "only shown in the runtime info: requests are handled in the turn they arrive in, no queue holds them"
)


@dataclass(kw_only=True)
class BrokerSettings(
    AuthSettings,
    ControllerModeOptions,
    FilterSettings,
    MetricsOptions,
    GroupOptions,
    NetworkSettings,
    FastFailureOptions,
    LiteOptions,
    PopOptions,
    ReplicationOptions,
    ReportingSettings,
    StoreSettings,
    TransactionOptions,
    UpkeepOptions,
    owner="BrokerConfig",
):
    """Options of one broker; handlers read it at every request, so that updates count at once."""

    # Identity, and the servers that know it.
    broker_name: str = option(
        "broker-a", "Name of the broker group.", apache_default="the host's name", owner="BrokerIdentity"
    )
    broker_cluster_name: str = option("DefaultCluster", "Name of the cluster.", owner="BrokerIdentity")
    broker_id: Long = option(0, "Id in the broker group; 0 is the master.", minimum=0, owner="BrokerIdentity")
    listen_port: int = option(
        10911,
        "Port for clients. The VIP port is 2 below it, the port of replication 1 above.",
        minimum=VIP_DISTANCE + 1,
        maximum=65534,
        owner="BrokerConfig NettyServerConfig",
    )
    broker_ip1: str | None = option(
        None,
        "Host in routes and message ids.",
        name="brokerIP1",
        apache_default="the first address that is not loopback",
    )
    advertised_port: int | None = option(
        None,
        "Port in routes and message ids, if it differs from listenPort.",
        minimum=1,
        maximum=65535,
        owner="",
    )
    broker_ip2: str | None = option(
        None,
        "Host for slaves; brokerIP1 if not set.",
        name="brokerIP2",
        apache_default="the first address that is not loopback",
    )
    namesrv_addr: str | None = option(
        None,
        "Name servers to register with: HOST:PORT separated by `;`.",
        apache_default="NAMESRV_ADDR of the environment",
    )
    region_id: str = option("DefaultRegion", "Property MSG_REGION of every message.", mutable=True)
    broker_config_path: str | None = option(
        None,
        "File that the options were read from.",
        status=Status.NO_EFFECT,
        reason="filled in from --config",
    )

    # Registration.
    register_name_server_period: int = option(
        30_000, "Interval of registrations with name servers, limited to 10 s to 60 s.", unit="ms", minimum=1
    )
    register_broker_timeout_mills: int = option(24_000, "Timeout of a registration.", unit="ms", minimum=1)
    force_register: bool = option(
        True,
        "Send a full registration every time, not only to name servers with outdated tables.",
        mutable=True,
    )
    enable_split_registration: bool = option(False, "Register many topics in several requests.", mutable=True)
    split_registration_size: int = option(
        800, "Topics in one of several registration requests.", unit="topics", mutable=True, minimum=1
    )

    # Rights of clients.
    broker_permission: int = option(
        6, "Permissions of clients: the sum of 4 (read) and 2 (write).", mutable=True, minimum=0, maximum=7
    )
    start_accept_send_request_time_stamp: Long = option(
        0, "Sends before this time are refused.", unit="ms since 1970", mutable=True
    )
    reject_pull_consumer_enable: bool = option(False, "Refuse heartbeats of pull consumers.", mutable=True)
    enable_register_producer: bool = option(True, "Keep a list of producers.", mutable=True)
    config_black_list: str = option(
        "configBlackList;brokerConfigPath",
        "Options that may not be changed over the network, separated by `;`.",
    )

    # Topics and groups.
    auto_create_topic_enable: bool = option(
        True, "Create a topic when a message is sent to it.", mutable=True
    )
    default_topic_queue_nums: int = option(8, "Queues of the template topic for new topics.", minimum=1)
    auto_create_subscription_group: bool = option(True, "Create a group when it is first seen.", mutable=True)
    cluster_topic_enable: bool = option(True, "Let clients use the topic named as the cluster.")
    broker_topic_enable: bool = option(True, "Let clients use the topic named as the broker.")
    trace_topic_enable: bool = option(False, "Create the topic of traces.")
    msg_trace_topic_name: str = option("RMQ_SYS_TRACE_TOPIC", "Name of the topic of traces.")
    validate_system_topic_when_update_topic: bool = option(
        True, "Refuse changes and deletion of system topics.", mutable=True
    )
    enable_mixed_message_type: bool = option(
        False, "Accept the topic attribute message.type=MIXED.", mutable=True
    )
    clear_retry_topic_when_delete_topic: bool = option(
        True, "Delete the POP retry topics together with their topic.", mutable=True
    )
    enable_split_metadata: bool = option(
        True,
        "Answer requests for all topics or groups in pages, to clients that support pages.",
        mutable=True,
    )
    split_metadata_size: int = option(
        2000, "Topics or groups on a page.", unit="entries", mutable=True, minimum=1
    )

    enable_broadcast_offset_store: bool = option(
        True,
        "Keep offsets of members of broadcasting groups that connect through a proxy, and "
        "store the smallest offset of each group as that of GROUP@broadcast.",
        mutable=True,
    )
    broadcast_offset_expire_second: Long = option(
        120, "Time that the offset of a disconnected member is kept.", unit="s", mutable=True, minimum=1
    )
    broadcast_offset_expire_max_second: Long = option(
        300,
        "Time that the offset of a connected member without pulls is kept.",
        unit="s",
        mutable=True,
        minimum=1,
    )

    # Pulls.
    long_polling_enable: bool = option(
        True, "Hold a pull that finds no message for as long as the client asks.", mutable=True
    )
    slave_read_enable: bool = option(
        False,
        "Suggest a slave (the group's whichBrokerWhenConsumeSlowly) for pulls of messages that "
        "are probably not in memory, and the group's brokerId for others.",
        mutable=True,
    )
    short_polling_time_mills: Long = option(
        1000, "Time that a pull is held if longPollingEnable is off.", unit="ms", mutable=True, minimum=0
    )
    lite_pull_message_enable: bool = option(True, "Serve lite pull consumers.", mutable=True)

    # Consumers.
    notify_consumer_ids_changed_enable: bool = option(
        True, "Notify the members of a group when its members change.", mutable=True
    )
    use_server_side_reset_offset: bool = option(
        True, "Reset offsets in the broker, with or without running consumers.", mutable=True
    )
    flush_consumer_offset_interval: int = option(
        5000, "Interval at which consumer offsets are saved.", unit="ms", minimum=1
    )
    consumer_offset_update_version_step: Long = option(
        500, "Number of offset updates after which their table gets a new version.", minimum=1
    )
    delay_offset_update_version_step: Long = option(
        200, "The same for the table of delayed messages.", minimum=1
    )
    recall_message_enable: bool = option(
        False, "Let producers recall timer messages before their delivery.", mutable=True
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True, "Allow recalls while brokerPermission refuses sends.", mutable=True
    )
    channel_expired_timeout: Long = option(
        120_000, "A client without a heartbeat for this long is disconnected.", unit="ms", minimum=1
    )

    # Traces.
    trace_on: bool = option(True, "Property TRACE_ON of every message: clients may trace it.", mutable=True)

    # Held requests.
    max_held_requests: int = option(
        200_000,
        "Maximum of held long polls, over all connections. Further ones are answered at once, "
        "as after a timeout. Each takes about 1 KB, and each of many connections may hold "
        "4,096.",
        mutable=True,
        minimum=1,
        owner="",
    )

    # Replies.
    store_reply_message_enable: bool = option(True, "Store replies as well as forwarding them.", mutable=True)

    # Shown, no more.
    send_thread_pool_queue_capacity: int = option(
        10_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    pull_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    lite_pull_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    query_thread_pool_queue_capacity: int = option(
        20_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    ack_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    end_transaction_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )


BROKER_TABLE = OptionTable(BrokerSettings, apache_rows("broker", "network"))
"""Every option of a broker."""
