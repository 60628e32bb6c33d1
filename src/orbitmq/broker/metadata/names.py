"""The broker's word on names: refusals for those that may not be."""

from __future__ import annotations

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import (
    HALF_TOPIC,
    LMQ_PREFIX,
    NO_SEND_TOPICS,
    ROCKSDB_HALF_TOPIC,
    IllegalName,
    check_group,
    check_topic,
)

HALF_TOPICS = frozenset({HALF_TOPIC, ROCKSDB_HALF_TOPIC})


def check_topic_name(topic: str | None) -> None:
    """Raises Refused (INVALID_PARAMETER) unless `topic` may be the name of a topic."""
    if topic is not None and topic.startswith(LMQ_PREFIX):
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"{topic} is a light message queue: send to a topic, and name it there",
        )
    try:
        check_topic(topic)
    except IllegalName as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None


def check_group_name(group: str | None) -> None:
    """Raises Refused (INVALID_PARAMETER) unless `group` may be the name of a subscription group."""
    try:
        check_group(group)
    except IllegalName as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None


def is_group_name(group: str | None) -> bool:
    """True if `group` may be the name of a subscription group."""
    try:
        check_group(group)
    except IllegalName:
        return False
    return True


def refuse_send_to_system_topic(topic: str) -> None:
    """Raises Refused (NO_PERMISSION) if clients may not send to `topic`."""
    if topic in NO_SEND_TOPICS:
        raise Refused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
