"""Light message queues of a message that is sent: those that it names, or that of its lite topic."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import MAX_LMQS, is_lite_topic_name, is_lmq_name, lite_queue
from orbitmq.protocol.names import (
    DLQ_PREFIX,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    LITE_PREFIX,
    LITE_TOPIC,
    LMQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_TOPIC_PREFIX,
)

_HAVE_NONE = (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)
"""Topics whose messages are copies, or the broker's own."""


def names_light_queues(properties: dict[str, str]) -> bool:
    """True if a message says something of light message queues."""
    return any(name in properties for name in (LITE_TOPIC, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET))


def light_queues(
    topic: TopicConfig, properties: dict[str, str], enabled: bool, may_write: Callable[[str], bool]
) -> tuple[str, ...]:
    """The light message queues for a message of a topic, named in its properties from here on.

    Those of a lite topic are for messages to its parent, and into others the sender `may_write`. A delayed
    message gets them when it is delivered: none here, but the names are checked. Raises Refused
    (MESSAGE_ILLEGAL, NO_PERMISSION) for one that cannot be; and for a message of a lite topic where there are
    none (`enabled` is false): it would be stored, and no consumer would ever get it.
    """
    properties.pop(INNER_MULTI_QUEUE_OFFSET, None)
    lite_topic = properties.get(LITE_TOPIC)
    if topic.topic_name.startswith(_HAVE_NONE):
        properties.pop(INNER_MULTI_DISPATCH, None)
        return ()
    if lite_topic is not None:
        return _of_lite_topic(topic, lite_topic, properties, enabled)
    names = properties.get(INNER_MULTI_DISPATCH)
    if names is None:
        return ()
    if not enabled:
        del properties[INNER_MULTI_DISPATCH]
        return ()
    lmqs = tuple(names.split(","))
    if len(lmqs) > MAX_LMQS or len(set(lmqs)) != len(lmqs) or not all(map(is_lmq_name, lmqs)):
        raise _illegal(
            f"{INNER_MULTI_DISPATCH} has to name up to {MAX_LMQS} different queues, each with {LMQ_PREFIX} "
            "before its name"
        )
    own = f"{LITE_PREFIX}{topic.topic_name}$"
    for name in lmqs:
        if name.startswith(LITE_PREFIX) and not name.startswith(own):
            raise _illegal(f"{name} is a lite topic of another topic than {topic.topic_name}")
        if not name.startswith(own) and not may_write(name):
            raise Refused(ResponseCode.NO_PERMISSION, f"no permission to write to the light queue {name}")
    return _unless_delayed(properties, lmqs)


def _of_lite_topic(
    topic: TopicConfig, lite_topic: str, properties: dict[str, str], enabled: bool
) -> tuple[str, ...]:
    if not enabled:
        properties.pop(INNER_MULTI_DISPATCH, None)
        if topic.attributes.get("message.type") == "LITE":
            raise _illegal("the broker has no lite topics: set enableLmq=true and enableMultiDispatch=true")
        return ()
    lmq = lite_queue(topic.topic_name, lite_topic)
    if not is_lite_topic_name(lite_topic) or not is_lmq_name(lmq):
        raise _illegal(
            f"{lite_topic!r} is no name of a lite topic: it has letters, digits, - and _, and fits into a "
            "folder's name with its topic"
        )
    properties[INNER_MULTI_DISPATCH] = lmq
    return _unless_delayed(properties, (lmq,))


def _unless_delayed(properties: dict[str, str], lmqs: tuple[str, ...]) -> tuple[str, ...]:
    """The queues of a message that is for consumers at once. Raises Refused for one of a transaction."""
    if properties.get("TRAN_MSG") == "true":
        raise _illegal("a message of a lite topic, or of light queues, cannot be of a transaction")
    waits = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
    return () if any(name in properties for name in waits) else lmqs


def _illegal(remark: str) -> Refused:
    return Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
