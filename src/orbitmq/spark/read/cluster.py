"""The cluster as the planning of a job needs it: queues, their brokers, and their offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from orbitmq.client.core.routes import TopicRoute, address_to_read
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.net.replies import read_reply
from orbitmq.protocol.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from orbitmq.protocol.bodies.route import MASTER_ID, ClusterInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import REPLY_TOPIC_SUFFIX, is_system_topic
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import CheckClientConfig
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset, SearchOffsetByTimestamp
from orbitmq.protocol.requests.pull import PullMessage, pull_without_commit
from orbitmq.protocol.requests.route import (
    GetAllTopicListFromNameserver,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
)
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.read.connecting import PLAIN, Connecting
from orbitmq.spark.read.planning import Queue

AT_ONCE = 128
"""Requests sent ahead of their answers."""
TIMEOUT_MS = 15_000
PASSING = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals that the same broker may not repeat a little later."""

T = TypeVar("T")
Bounds = dict[Queue, tuple[int, int]]
"""First offset, and the one after the last message, of queues."""


@dataclass(slots=True)
class Reachable:
    """The bounds of queues, and the brokers that could not be asked, with why."""

    bounds: Bounds = field(default_factory=dict)
    away: dict[str, NetError] = field(default_factory=dict)


class Cluster:
    """Questions to name servers and brokers, over connections that stay open until `close`.

    A connection that broke since it was last used is made again, once per question.
    """

    def __init__(self, namesrv: Sequence[str], connecting: Connecting = PLAIN) -> None:
        self._namesrv = tuple(namesrv)
        self._connecting = connecting
        self._open: dict[str, BlockingConnection] = {}
        self._closes = 0
        """Number of calls of `close`: a question of another thread may be under way then."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections, that of a question under way once it ends. The next one opens new ones."""
        self._closes += 1
        while self._open:
            self._open.popitem()[1].close()

    def ask(self, address: str, question: Callable[[BlockingConnection], T]) -> T:
        """Asks over the connection to `address`. Raises NetError, BrokerRefused."""
        connection = self._open.pop(address, None)
        if connection is not None:
            try:
                return self._asked(connection, question)
            except NetError:
                pass  # It broke between two uses: the peer may have been restarted.
        return self._asked(self._connecting.connect(address), question)

    def _asked(self, connection: BlockingConnection, question: Callable[[BlockingConnection], T]) -> T:
        closes = self._closes
        try:
            answer = question(connection)
        except BrokerRefused:
            self._keep(connection, closes)
            raise
        except BaseException:
            connection.close()
            raise
        self._keep(connection, closes)
        return answer

    def _keep(self, connection: BlockingConnection, closes: int) -> None:
        """Keeps a connection for the next question, unless `close` was called meanwhile."""
        self._open[connection.address] = connection
        if closes != self._closes:
            self.close()

    def _ask_name_server(self, question: Callable[[BlockingConnection], T]) -> T:
        failures = []
        for address in self._namesrv:
            try:
                return self.ask(address, question)
            except NetError as error:
                failures.append(str(error))
        raise SparkSourceError(f"no name server answers: {'; '.join(failures)}")

    def readable_queues(self, topics: Iterable[str]) -> list[Queue]:
        """The queues of `topics` that can be read, by any of the name servers.

        Raises BadOption for a topic nobody knows, SparkSourceError when no name server answers or no
        broker of a topic is up.
        """
        found = []
        for topic in topics:
            queues = self.queues_of(topic)
            if queues is None:
                raise BadOption(f"topic {topic} does not exist (asked the name servers {self._names})")
            if not queues:
                raise SparkSourceError(
                    f"topic {topic} has no queue that can be read now: no broker of it is up"
                )
            found += queues
        return found

    @property
    def _names(self) -> str:
        return ";".join(self._namesrv)

    def queues_of(self, topic: str) -> list[Queue] | None:
        """The queues of one topic; None for a topic that is unknown now. Raises SparkSourceError."""
        try:
            route = self._ask_name_server(lambda namesrv: namesrv.call(GetRouteinfoByTopic(topic)).body)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return _readable(TopicRoute(topic, route))

    def topics_that_match(self, pattern: str) -> list[str]:
        """Names of topics that a regular expression matches as a whole. Raises SparkSourceError.

        System topics never do, retry and dead-letter topics only where the pattern begins with `%`.
        """
        known = self._ask_name_server(lambda namesrv: namesrv.call(GetAllTopicListFromNameserver()).body)
        expression = re.compile(pattern)
        ours = [
            topic
            for topic in sorted(known.topic_list)
            if expression.fullmatch(topic)
            and not is_system_topic(topic)
            and (not topic.startswith("%") or pattern.startswith("%"))
        ]
        # Names of brokers and clusters are topics too, without a queue of anybody's.
        info = self._cluster_info()
        clusters = set(info.cluster_addr_table or {})
        system = (
            clusters
            | set(info.broker_addr_table or {})
            | {f"{cluster}_{REPLY_TOPIC_SUFFIX}" for cluster in clusters}
        )
        return [topic for topic in ours if topic not in system]

    def broker_names(self) -> set[str]:
        """The broker groups that have a member registered now. Raises SparkSourceError."""
        brokers = self._cluster_info().broker_addr_table or {}
        return {name for name, data in brokers.items() if data.broker_addrs}

    def _cluster_info(self) -> ClusterInfo:
        return self._ask_name_server(lambda namesrv: namesrv.call(GetBrokerClusterInfo()).body)

    def bounds(self, queues: Iterable[Queue]) -> Bounds:
        """First offset, and the one after the last message. Raises NetError, BrokerRefused."""
        found: Bounds = {}
        for address, members in _by_address(queues).items():
            found.update(self._bounds_at(address, members))
        return found

    def bounds_within_reach(self, queues: Iterable[Queue]) -> Reachable:
        """The same of the brokers that answer, and which do not. Raises BrokerRefused."""
        found = Reachable()
        for address, members in _by_address(queues).items():
            try:
                found.bounds.update(self._bounds_at(address, members))
            except NetError as error:
                found.away[members[0].broker_name] = error
        return found

    def _bounds_at(self, address: str, queues: list[Queue]) -> Bounds:
        requests: list[Any] = []
        for queue in queues:
            requests += [
                GetMinOffset(queue.topic, queue.queue_id, logical=False),
                GetMaxOffset(queue.topic, queue.queue_id, logical=False),
            ]
        offsets = [max(0, reply.offset) for reply in self.ask(address, lambda peer: call_all(peer, requests))]
        return dict(zip(queues, zip(offsets[::2], offsets[1::2], strict=True), strict=True))

    def offsets_at(self, times_ms: Mapping[Queue, int], group: str) -> dict[Queue, int | None]:
        """The first message stored at or after a time (ms), by queue; None where there is none.

        Raises NetError, BrokerRefused.
        """
        found: dict[Queue, int | None] = {}
        for address, members in _by_address(times_ms).items():
            requests = [
                SearchOffsetByTimestamp(queue.topic, queue.queue_id, times_ms[queue], "lower", logical=False)
                for queue in members
            ]
            offsets = self.ask(address, lambda peer, asked=requests: call_all(peer, asked))  # type: ignore[misc]
            for queue, reply in zip(members, offsets, strict=True):
                found[queue] = self._confirmed(queue, max(0, reply.offset), times_ms[queue], group)
        return found

    def _confirmed(self, queue: Queue, offset: int, time_ms: int, group: str) -> int | None:
        """Brokers before 5 name the nearest message, which may be one before the time."""
        for candidate in (offset, offset + 1):
            stored_ms = self._store_time(queue, candidate, group)
            if stored_ms is None:
                return None
            if stored_ms >= time_ms:
                return candidate
        return None

    def _store_time(self, queue: Queue, offset: int, group: str) -> int | None:
        request = pull_request(queue, offset, 1, group=group)
        reply = self.ask(queue.address, lambda peer: peer.call(request, TIMEOUT_MS))
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return None
        return int(decode_record(reply.body, 0, False).store_timestamp)

    def check_expression(self, queue: Queue, subscription: str, expression_type: str, group: str) -> None:
        """Lets the broker read an expression, before tasks come with it. Raises BadOption, NetError.

        Apache's broker answers a pull with an expression that it cannot read as if there were none.
        """
        wanted = SubscriptionData(queue.topic, subscription, expression_type)
        request = CheckClientConfig(CheckClientRequestBody("spark", group, wanted))
        try:
            self.ask(queue.address, lambda peer: peer.call(request, TIMEOUT_MS))
        except BrokerRefused as error:
            if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
                raise BadOption(
                    f"sql: broker {queue.broker_name} cannot read {subscription!r} as SQL92: {error.remark}"
                ) from None
            if error.code == ResponseCode.SYSTEM_ERROR and expression_type in (error.remark or ""):
                raise BadOption(
                    f"sql: broker {queue.broker_name} takes no SQL92 filters, set enablePropertyFilter=true "
                    f"there: {error.remark}"
                ) from None
            raise


def pull_request(
    queue: Queue,
    queue_offset: int,
    max_count: int,
    *,
    group: str,
    subscription: str = "*",
    expression_type: str = "TAG",
) -> PullMessage:
    """A pull that is answered at once, with as much as the broker gives, and commits nothing."""
    pull = pull_without_commit(
        group,
        queue.topic,
        queue.queue_id,
        queue_offset,
        max_count,
        subscription=subscription,
        expression_type=expression_type,
    )
    pull.bulk = True
    return pull


def call_all(connection: BlockingConnection, requests: Sequence[Any]) -> list[Any]:
    """The replies to several requests, many of them under way at a time. Raises NetError, BrokerRefused.

    A refusal is raised once all answers of its stretch are in, so that the connection stays of use.
    """
    replies: list[Any] = []
    for first in range(0, len(requests), AT_ONCE):
        asked = {connection.send(request): request for request in requests[first : first + AT_ONCE]}
        answers: dict[int, Command] = {}
        while len(answers) < len(asked):
            command = connection.receive(TIMEOUT_MS)
            if command.opaque in asked:
                answers[command.opaque] = command
        replies += [
            read_reply(request, answers[opaque], connection.address) for opaque, request in asked.items()
        ]
    return replies


def _readable(route: TopicRoute) -> list[Queue]:
    return [
        Queue(queue.topic, queue.broker_name, queue.queue_id, address, MASTER_ID in members)
        for queue in route.stored_queues
        if (members := route.brokers.get(queue.broker_name))
        and (address := address_to_read(members)) is not None
    ]


def _by_address(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    found: dict[str, list[Queue]] = {}
    for queue in queues:
        found.setdefault(queue.address, []).append(queue)
    return found


def readable_queues(
    namesrv: Sequence[str], topics: Iterable[str], connecting: Connecting = PLAIN
) -> list[Queue]:
    """The queues of `topics` that can be read. Raises BadOption, SparkSourceError."""
    with Cluster(namesrv, connecting) as cluster:
        return cluster.readable_queues(topics)


def queue_bounds(queues: Iterable[Queue], connecting: Connecting = PLAIN) -> Bounds:
    """First offset, and the one after the last message, of every queue. Raises NetError, BrokerRefused."""
    with Cluster((), connecting) as cluster:
        return cluster.bounds(queues)
