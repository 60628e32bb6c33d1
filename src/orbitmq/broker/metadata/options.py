"""Options of a broker that its clients see: its name and rights, its topics and groups."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, Settings, option
from orbitmq.store.option_rows import StoreSettings


@dataclass(kw_only=True)
class IdentityOptions(Settings, owner="BrokerConfig"):
    """The name of a broker, and the rights of its clients."""

    broker_name: str = option(
        "broker-a", "Name of the broker group.", apache_default="the host's name", owner="BrokerIdentity"
    )
    broker_cluster_name: str = option("DefaultCluster", "Name of the cluster.", owner="BrokerIdentity")
    broker_id: Long = option(0, "Id in the broker group; 0 is the master.", minimum=0, owner="BrokerIdentity")
    region_id: str = option("DefaultRegion", "Property MSG_REGION of every message.", mutable=True)
    trace_on: bool = option(True, "Property TRACE_ON of every message: clients may trace it.", mutable=True)
    broker_permission: int = option(
        6, "Permissions of clients: the sum of 4 (read) and 2 (write).", mutable=True, minimum=0, maximum=7
    )
    start_accept_send_request_time_stamp: Long = option(
        0, "Sends before this time are refused.", unit="ms since 1970", mutable=True
    )


@dataclass(kw_only=True)
class TopicOptions(StoreSettings, owner="BrokerConfig"):
    """Options of topics and groups."""

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
    revive_queue_num: int = option(8, "Queues of the revive topic of POP consumption.", minimum=1)
