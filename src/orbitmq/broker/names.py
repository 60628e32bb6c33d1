"""Rules about topic and group names: which are well formed, which belong to the system."""

from __future__ import annotations

import re

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused

MAX_TOPIC_LENGTH = 127
MAX_RETRY_TOPIC_LENGTH = 255
MAX_GROUP_LENGTH = 120

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"

AUTO_CREATE_TOPIC = "TBW102"
"""Its config is the pattern of topics made by a first send."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPICS = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"})
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
"""Topics that belong to the system in every cluster; `TopicTable.is_system` knows this broker's own, too."""

NO_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics to which clients may not send."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Groups that every broker has from the start."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """Where the group's failed messages wait for their next delivery."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where the group's messages end that were delivered too often."""
    return DLQ_PREFIX + group


def is_legal(name: str) -> bool:
    """Whether a name has only the characters that topics and groups may have."""
    return _LEGAL.fullmatch(name) is not None


def check_topic_name(topic: str | None) -> None:
    """Raises Refused (INVALID_PARAMETER) unless `topic` may be the name of a topic."""
    if topic is None or not topic.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if not is_legal(topic):
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic: {topic}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    limit = MAX_RETRY_TOPIC_LENGTH if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH
    if len(topic) > limit:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic is longer than topic max length: {limit}, topic: {topic}",
        )


def is_group_name(group: str | None) -> bool:
    """Whether `group` may be the name of a subscription group."""
    return group is not None and len(group) <= MAX_GROUP_LENGTH and is_legal(group)


def check_group_name(group: str | None) -> None:
    """Raises Refused (INVALID_PARAMETER) unless `group` may be the name of a subscription group."""
    if group is None or not group.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified group is blank.")
    if not is_legal(group):
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"The specified group: {group}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if len(group) > MAX_GROUP_LENGTH:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"The specified group is longer than group max length: {MAX_GROUP_LENGTH}, group: {group}",
        )


def refuse_send_to_system_topic(topic: str) -> None:
    """Raises Refused (NO_PERMISSION) if clients may not send to `topic`."""
    if topic in NO_SEND_TOPICS:
        raise Refused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
