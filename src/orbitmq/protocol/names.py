"""Names that have a meaning to every peer: properties, topics, groups, and how names may look.

The rules for names are those of Apache's broker.
"""

from __future__ import annotations

import re

from orbitmq.protocol.errors import OrbitError

# ---- message properties ----

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_GROUP = "ORIGIN_GROUP"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
BUYER_ID = "BUYER_ID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
RECONSUME_TIME = "RECONSUME_TIME"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
UNIQ_KEY = "UNIQ_KEY"
TRANS_OFFSET = "TRANS_OFFSET"
EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME = "CONSUME_START_TIME"
PRIORITY = "_SYS_MSG_PRIORITY_"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
DUP_INFO = "DUP_INFO"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
INSTANCE_ID = "INSTANCE_ID"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
CLUSTER = "CLUSTER"
MSG_TYPE = "MSG_TYPE"
POP_CK = "POP_CK"
POP_CK_OFFSET = "POP_CK_OFFSET"
FIRST_POP_TIME = "1ST_POP_TIME"
SHARDING_KEY = "__SHARDINGKEY"
FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT = "REDIRECT"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
LITE_TOPIC = "__LITE_TOPIC"
TRACE_CONTEXT = "TRACE_CONTEXT"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TIMER_ENGINE_TYPE = "E_T"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_ROLL_LABEL = "TIMER_ROLL_LABEL"
TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
CRC32 = "__CRC32#"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

TRANSIENT_PREFIX = "__RMQ.TRANSIENT."
"""Properties that a broker keeps to itself begin so."""
KEY_SEPARATOR = " "

RESERVED_PROPERTIES = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
) - {TRANSIENT_PREFIX, KEY_SEPARATOR}
"""Every property name above: peers give them a meaning, applications should not."""

FIRST_ID = "orbitmq.firstMessageId"
"""The property with the unique id of the message that became a dead letter: a redrive sends it with a new
one, and idempotent handlers know it by the first."""
WRITE_PROPERTY = "orbitmq.write"
"""The property with the identity of a message that is sent once, whoever sends it: `write/…`."""

# ---- index types, as queries by key name them ----

INDEX_KEY = "K"
INDEX_UNIQUE = "U"
INDEX_TAG = "T"

# ---- topics and groups ----

AUTO_CREATE_TOPIC = "TBW102"
"""Its settings are the pattern of topics that a first send creates."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
ROCKSDB_OFFSET_TOPIC = "CHECKPOINT_TOPIC"

SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
SYNC_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics with this prefix are about one member each: no slave stands in for their master."""
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
LITE_PREFIX = "%LMQ%$"
"""The queue of a lite topic is `%LMQ%$parent$lite`, see `protocol.lite_topics`."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group under which tools read: every broker has it from the start, and nothing is committed under it."""
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Its offsets in the topics of half messages and op records say from where on these matter."""
OP_TAG = "d"
"""Tag of an op record that takes half messages from the open ones."""

SYSTEM_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups that every broker has from the start."""

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANSACTION_CHECK_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        ROCKSDB_OFFSET_TOPIC,
    }
)
"""Topics of the system itself in every cluster; those that begin with SYSTEM_TOPIC_PREFIX come to it."""

NO_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANSACTION_CHECK_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics to which clients may not send."""

MAX_TOPIC_CHARACTERS = 127
MAX_RETRY_TOPIC_CHARACTERS = 255
MAX_GROUP_CHARACTERS = 120

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_RULE = "allowing only ^[%|a-zA-Z0-9_-]+$"


class IllegalName(OrbitError, ValueError):
    """A name that no topic or group may have. Its text is the remark with which a broker refuses it."""


def retry_topic(group: str) -> str:
    """The topic in which a group's failed messages wait for their next delivery."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of a group's messages that were delivered too often."""
    return DLQ_PREFIX + group


def is_system_topic(topic: str) -> bool:
    """True if a topic belongs to the system in every cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """True if a group belongs to the system in every cluster."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(topic: str | None) -> None:
    """Raises IllegalName unless `topic` may be the name of a topic."""
    _check("topic", topic, MAX_TOPIC_CHARACTERS)


def check_group(group: str | None) -> None:
    """Raises IllegalName unless `group` may be the name of a producer or consumer group."""
    _check("group", group, MAX_GROUP_CHARACTERS)


def _check(kind: str, name: str | None, limit: int) -> None:
    if name is None or not name.strip():
        raise IllegalName(f"The specified {kind} is blank.")
    if not _LEGAL.fullmatch(name):
        raise IllegalName(f"The specified {kind}: {name}, contains illegal characters, {_RULE}")
    if kind == "topic" and name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        limit = MAX_RETRY_TOPIC_CHARACTERS
    if len(name) > limit:
        raise IllegalName(f"The specified {kind} is longer than {kind} max length: {limit}, {kind}: {name}")
