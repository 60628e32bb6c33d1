"""The rows of Apache's BrokerConfig that are about POP consumption and about queues that brokers assign."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.metadata.options import IdentityOptions, TopicOptions
from orbitmq.options import Long, option


@dataclass(kw_only=True)
class PopOptions(IdentityOptions, TopicOptions, owner="BrokerConfig"):
    """Options of POP."""

    revive_interval: Long = option(
        1000,
        "Interval of checks for popped messages that were not acknowledged in time.",
        unit="ms",
        minimum=1,
    )
    enable_retry_topic_v2: bool = option(
        False, "Name POP retry topics %RETRY%group+topic instead of %RETRY%group_topic.", mutable=True
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, "With enableRetryTopicV2, still read retry topics of the first form.", mutable=True
    )
    use_separate_retry_queue: bool = option(
        False, "Give POP retry topics as many queues as their topic has.", mutable=True
    )
    pop_response_return_actual_retry_topic: bool = option(
        False,
        "Deliver messages of a POP retry topic under the name of the retry topic, not of the original topic.",
        mutable=True,
    )
    pop_from_retry_probability: int = option(
        20,
        "Percentage of pops that read the retry topic first.",
        unit="percent",
        mutable=True,
        minimum=0,
        maximum=100,
    )
    pop_from_retry_probability_for_priority: int = option(
        0, "The same for topics of type PRIORITY.", unit="percent", mutable=True, minimum=0, maximum=100
    )
    priority_order_asc: bool = option(
        True, "In a PRIORITY topic, deliver messages with higher numbers first.", mutable=True
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True,
        "A new group that starts at the newest message gets the whole queue if its first "
        "message is still in memory.",
        mutable=True,
    )
    enable_pop_message_threshold: bool = option(
        False,
        "Stop delivery from a queue to a group that has too many of its messages in flight.",
        mutable=True,
    )
    pop_inflight_message_threshold: Long = option(
        10_000,
        "Maximum of messages in flight, with enablePopMessageThreshold.",
        unit="messages",
        mutable=True,
        minimum=0,
    )
    pop_polling_size: int = option(
        1024, "Maximum of held pops for one topic, group and queue.", mutable=True, minimum=0
    )
    max_pop_polling_size: Long = option(100_000, "Maximum of held pops in total.", mutable=True, minimum=0)
    pop_long_polling_force_notify_interval: Long = option(
        800,
        "Number of new messages after which a held pop is woken even if its filter matches none.",
        unit="messages",
        mutable=True,
    )
    enable_notify_after_pop_order_lock_release: bool = option(
        True, "Wake held pops when the lock of an ordered queue ends.", mutable=True
    )
    enable_pop_buffer_merge: bool = option(
        False,
        "Keep checkpoints of pops in memory first, and do not store those that are "
        "acknowledged soon. After a crash, messages acknowledged in the last seconds are "
        "delivered again.",
        mutable=True,
    )
    pop_ck_stay_buffer_time: int = option(
        10_000, "Time that a checkpoint of a pop stays in memory.", unit="ms", mutable=True, minimum=0
    )
    pop_ck_stay_buffer_time_out: int = option(
        3000,
        "Time before the end of its invisible time at which a checkpoint of a pop leaves memory.",
        unit="ms",
        mutable=True,
        minimum=1000,
    )
    pop_ck_max_buffer_size: int = option(
        200_000, "Maximum of checkpoints of pops in memory.", mutable=True, minimum=0
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000, "Maximum of checkpoints of pops in memory for one queue and group.", mutable=True, minimum=0
    )
    enable_pop_batch_ack: bool = option(
        False,
        "Store the acknowledgements of a checkpoint of a pop that leaves memory as one record.",
        mutable=True,
    )
    server_load_balancer_enable: bool = option(
        True,
        "Divide queues among the members of a group that ask for an assignment. Otherwise each "
        "member gets all queues.",
        mutable=True,
    )
    default_message_request_mode: str = option(
        "PULL",
        "Mode of clients that ask for an assignment, unless setConsumeMode has set one.",
        java_type="MessageRequestMode",
        choices=("PULL", "POP"),
    )
    default_pop_share_queue_num: int = option(
        -1,
        "With defaultMessageRequestMode POP: number of neighbours whose queues a client "
        "shares; 0 or less: all.",
    )
    load_balance_poll_name_server_interval: Long = option(
        30_000,
        "Interval at which routes of assigned topics are fetched from name servers.",
        unit="ms",
        minimum=1000,
    )
