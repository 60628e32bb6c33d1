"""Pulling and looking up messages."""

from __future__ import annotations

from orbitmq.protocol.schema.declare import Blob, Bytes, Long, Reply, Request, RequestQueue, request, wire

COMMITS_OFFSET = 1
MAY_BE_HELD = 2
SUBSCRIPTION_IN_REQUEST = 4
"""Flags of a pull, the bits of its `sys_flag`."""


class PullReply(Reply):
    """Stored records back to back, and where to continue."""

    suggest_which_broker_id: Long
    """0: the master; another id where a slave should be asked next."""
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None
    body: Bytes | None = None


class _Pull(Request[PullReply]):
    """Fields that PULL_MESSAGE and its lite form share."""

    accepts = (19, 20, 21)

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: Long
    max_msg_nums: int
    sys_flag: int
    """`COMMITS_OFFSET`, `MAY_BE_HELD`, `SUBSCRIPTION_IN_REQUEST`, 8 class filter, 16 lite pull."""
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    proxy_froward_client_id: str | None = None
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)
    """False: the queue of a static topic is the physical one of that number."""
    lite_topic: str | None = None
    """A lite topic of the topic: messages of its light queue, whichever queue is named."""
    bulk: bool | None = wire("orbitmqBulk", default=None)
    """For who reads whole topics: answers are limited by bytes alone. OrbitMQ's own; others pass it over."""


@request(11, queue=RequestQueue.PULL)
class PullMessage(_Pull):
    """Messages of one queue from a queue offset on; the broker may hold the request until there is one."""


def pull_without_commit(
    group: str,
    topic: str,
    queue_id: int,
    queue_offset: int,
    max_messages: int,
    *,
    wait_ms: int = 0,
    subscription: str = "*",
    expression_type: str = "TAG",
) -> PullMessage:
    """A pull of a physical queue that commits no offset: answered at once, or within `wait_ms` if it finds no
    message.
    """
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=max_messages,
        sys_flag=SUBSCRIPTION_IN_REQUEST | (MAY_BE_HELD if wait_ms > 0 else 0),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        sub_version=0,
        subscription=subscription,
        expression_type=expression_type,
        logical=False,
    )


@request(361, queue=RequestQueue.LITE_PULL)
class LitePullMessage(_Pull):
    """The same for clients that assign queues by themselves."""


class QueryReply(Reply):
    """Stored records, and how far the index reaches."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long
    body: Bytes | None = None


@request(12, queue=RequestQueue.UNLIMITED)
class QueryMessage(Request[QueryReply]):
    """Messages of a topic by key, in a span of store times (ms)."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: Long
    end_timestamp: Long
    index_type: str | None = None
    """K key, U unique id, T tag; K when absent."""
    last_key: str | None = None
    is_unique_key: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)
    """The key is a unique id; at most 32 messages are given then."""


@request(33, queue=RequestQueue.UNLIMITED)
class ViewMessageById(Request[Blob]):
    """The record at a physical offset; SYSTEM_ERROR if there is none."""

    offset: Long
    topic: str | None = None
    unconfirmed: bool | None = wire("orbitmqUnconfirmed", default=None)
    """For slaves that compare logs: the record may lie behind the confirm offset, where readers do not see it
    yet. OrbitMQ's own; Apache's broker passes it over, and shows all of its log."""
