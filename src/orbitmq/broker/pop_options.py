"""The rows of Apache's BrokerConfig that are about POP consumption and about queues that brokers assign."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Option, option, without_effect
from orbitmq.options.declare import Settings

_OWNER = "BrokerConfig"


@dataclass(kw_only=True)
class PopOptions(Settings):
    """What a broker is told about pops."""

    revive_queue_num: int = option(
        "reviveQueueNum", "int", 8, "Queues of the topic that POP consumption needs.", minimum=1
    )
    revive_interval: int = option(
        "reviveInterval",
        "long",
        1000,
        "How often messages are looked for that were popped and not acknowledged in time.",
        unit="ms",
        minimum=1,
    )
    enable_retry_topic_v2: bool = option(
        "enableRetryTopicV2",
        "boolean",
        False,
        "Name POP retry topics %RETRY%group+topic instead of %RETRY%group_topic.",
        mutable=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        "retrieveMessageFromPopRetryTopicV1",
        "boolean",
        True,
        "With enableRetryTopicV2, still read retry topics of the first form.",
        mutable=True,
    )
    use_separate_retry_queue: bool = option(
        "useSeparateRetryQueue",
        "boolean",
        False,
        "Give POP retry topics as many queues as their topic has.",
        mutable=True,
    )
    pop_response_return_actual_retry_topic: bool = option(
        "popResponseReturnActualRetryTopic",
        "boolean",
        False,
        "Hand out messages of a POP retry topic under its name, not under that of the topic.",
        mutable=True,
    )
    pop_from_retry_probability: int = option(
        "popFromRetryProbability",
        "int",
        20,
        "How many of a hundred pops read the retry topic first.",
        unit="percent",
        mutable=True,
        minimum=0,
        maximum=100,
    )
    pop_from_retry_probability_for_priority: int = option(
        "popFromRetryProbabilityForPriority",
        "int",
        0,
        "The same for topics of type PRIORITY.",
        unit="percent",
        mutable=True,
        minimum=0,
        maximum=100,
    )
    priority_order_asc: bool = option(
        "priorityOrderAsc",
        "boolean",
        True,
        "Messages of a PRIORITY topic with the higher number come first.",
        mutable=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        "initPopOffsetByCheckMsgInMem",
        "boolean",
        True,
        "A new group that asks for the newest messages gets all of a queue whose first is in memory yet.",
        mutable=True,
    )
    enable_pop_message_threshold: bool = option(
        "enablePopMessageThreshold",
        "boolean",
        False,
        "Give a group nothing more of a queue of which it has too many messages in flight.",
        mutable=True,
    )
    pop_inflight_message_threshold: int = option(
        "popInflightMessageThreshold",
        "long",
        10_000,
        "How many messages in flight are not too many.",
        unit="messages",
        mutable=True,
        minimum=0,
    )
    pop_polling_size: int = option(
        "popPollingSize",
        "int",
        1024,
        "Pops held for one topic, group and queue.",
        mutable=True,
        minimum=0,
    )
    max_pop_polling_size: int = option(
        "maxPopPollingSize", "long", 100_000, "Pops held at all.", mutable=True, minimum=0
    )
    pop_long_polling_force_notify_interval: int = option(
        "popLongPollingForceNotifyInterval",
        "long",
        800,
        "Every so many messages of a queue a held pop looks even if its filter does not want the message.",
        unit="messages",
        mutable=True,
    )
    enable_notify_after_pop_order_lock_release: bool = option(
        "enableNotifyAfterPopOrderLockRelease",
        "boolean",
        True,
        "Wake held pops when the time is over that blocked an ordered queue.",
        mutable=True,
    )
    enable_pop_buffer_merge: bool = option(
        "enablePopBufferMerge",
        "boolean",
        False,
        "Keep check points in memory first: what is acknowledged soon is never stored. A crash then delivers"
        " again what was acknowledged in the last seconds.",
        mutable=True,
    )
    pop_ck_stay_buffer_time: int = option(
        "popCkStayBufferTime",
        "int",
        10_000,
        "How long a check point stays in memory.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    pop_ck_stay_buffer_time_out: int = option(
        "popCkStayBufferTimeOut",
        "int",
        3000,
        "How long before the end of its invisible time a check point leaves memory.",
        unit="ms",
        mutable=True,
        minimum=1000,
    )
    pop_ck_max_buffer_size: int = option(
        "popCkMaxBufferSize", "int", 200_000, "Check points in memory.", mutable=True, minimum=0
    )
    pop_ck_offset_max_queue_size: int = option(
        "popCkOffsetMaxQueueSize",
        "int",
        20_000,
        "Pops of one queue and group whose check points may be in memory.",
        mutable=True,
        minimum=0,
    )
    enable_pop_batch_ack: bool = option(
        "enablePopBatchAck",
        "boolean",
        False,
        "Store the acknowledgements of a check point that leaves memory as one record.",
        mutable=True,
    )
    server_load_balancer_enable: bool = option(
        "serverLoadBalancerEnable",
        "boolean",
        True,
        "Share queues among the members of a group that ask; otherwise each gets all of them.",
        mutable=True,
    )
    default_message_request_mode: str = option(
        "defaultMessageRequestMode",
        "MessageRequestMode",
        "PULL",
        "What clients do that ask for their queues, unless setConsumeMode says it.",
        choices=("PULL", "POP"),
    )
    default_pop_share_queue_num: int = option(
        "defaultPopShareQueueNum",
        "int",
        -1,
        "With defaultMessageRequestMode POP: how many of its neighbours a client helps; 0 or less for all.",
    )
    load_balance_poll_name_server_interval: int = option(
        "loadBalancePollNameServerInterval",
        "long",
        30_000,
        "How often name servers are asked where else the topics are whose queues are assigned.",
        unit="ms",
        minimum=1000,
    )


POP_ROWS: list[Option] = [
    *without_effect(
        "held calls are in one table, which is empty when nobody is held",
        _OWNER,
        ("popPollingMapSize", "int", 100_000),
        ("popPollingMapExpireTimeSeconds", "int", 600),
    ),
    *without_effect(
        "revival goes on where it was, in turns that let others go first",
        _OWNER,
        ("reviveMaxSlow", "long", 3),
        ("reviveScanTime", "long", 10_000),
    ),
    *without_effect(
        "an acknowledgement without its check point holds nobody up",
        _OWNER,
        ("enableSkipLongAwaitingAck", "boolean", False),
        ("reviveAckWaitMs", "long", 180_000),
    ),
    *without_effect(
        "a message that cannot be put into the retry topic is tried again until it can",
        _OWNER,
        ("skipWhenCKRePutReachMaxTimes", "boolean", False),
    ),
    *without_effect(
        "an append waits for nothing, and replies that wait for the disk hold nobody up",
        _OWNER,
        ("appendAckAsync", "boolean", False),
        ("appendCkAsync", "boolean", False),
    ),
    *without_effect(
        "lag is what is in the queues and in flight at the moment of the question",
        _OWNER,
        ("enableNotifyBeforePopCalculateLag", "boolean", True),
    ),
    *without_effect("the log of pops is part of the debug log", _OWNER, ("enablePopLog", "boolean", False)),
    *without_effect(
        "this broker keeps nothing in RocksDB",
        _OWNER,
        ("popConsumerFSServiceInit", "boolean", True),
        ("popConsumerKVServiceLog", "boolean", False),
        ("popConsumerKVServiceInit", "boolean", False),
        ("popConsumerKVServiceEnable", "boolean", False),
        ("popReviveMaxReturnSizePerRead", "int", 16_384),
        ("popReviveConcurrency", "int", 32),
        ("popReviveMaxAttemptTimes", "int", 16),
    ),
]
