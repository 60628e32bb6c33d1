"""Progress of groups, offsets, time spans, and what a proxy does itself."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orbitmq
from orbitmq.admin.admin import Admin
from orbitmq.admin.progress import live_progress
from orbitmq.admin.resets import reset_offset
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import OffsetWrapper
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.group import QueryConsumeTimeSpan
from orbitmq.proxy.checks import duration_ms
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.errors import OK
from orbitmq.proxy.messages import TOPIC_TYPES
from orbitmq.proxy.operating.members import named
from orbitmq.proxy.wire import admin_pb2 as operator
from orbitmq.proxy.wire import messaging_pb2 as pb


class Rates:
    """Messages per second, in and out, since the last look. `now` is in ms."""

    def __init__(self, now: int) -> None:
        self._counts = (0, 0)
        self._looked_ms = now
        self.per_second = (0.0, 0.0)

    def look(self, sent: int, received: int, now: int) -> None:
        """Notes how many there have been since the start."""
        seconds = max(now - self._looked_ms, 1) / 1000
        before, self._counts, self._looked_ms = self._counts, (sent, received), now
        self.per_second = ((sent - before[0]) / seconds, (received - before[1]) / seconds)


@dataclass(eq=False, repr=False)
class ProgressCalls:
    """The calls about topics, backlogs, offsets and the proxy itself."""

    _admin: Admin
    _cluster: Cluster
    _clients: Clients
    _rates: Rates
    _connections: Callable[[], int]
    _now: Callable[[], int]

    async def topic_status(
        self, request: operator.DescribeTopicStatusRequest
    ) -> operator.DescribeTopicStatusResponse:
        """The type of a topic; unspecified for one that takes all messages."""
        kind = await self._cluster.topic_type(named(request.topic, "topic"))
        found = TOPIC_TYPES.get(kind, pb.MESSAGE_TYPE_UNSPECIFIED)
        return operator.DescribeTopicStatusResponse(status=OK, topic_message_type=found, description=kind)

    async def topic_route(self, request: operator.GetTopicRouteRequest) -> operator.GetTopicRouteResponse:
        """The route as name servers give it, in JSON."""
        route = await self._cluster.route(named(request.topic, "topic"))
        return operator.GetTopicRouteResponse(
            status=OK, topic_route_data=route.data.to_standard_json().decode()
        )

    async def accumulation(
        self, request: operator.DescribeGroupAccumulationRequest
    ) -> operator.DescribeGroupAccumulationResponse:
        """The backlog of a group, by topic and together; messages that wait for a retry are under the retry
        topic.
        """
        group = named(request.group, "group")
        wanted = {one.name for one in request.topics}
        progress, _ = await live_progress(self._admin, group, None, await self._admin.masters())
        by_topic: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
        for queue, one in progress.queues.items():
            if not wanted or queue.topic in wanted or queue.topic.startswith(RETRY_PREFIX):
                by_topic.setdefault(queue.topic, {})[queue] = one
        response = operator.DescribeGroupAccumulationResponse(status=OK)
        everything: dict[MessageQueue, OffsetWrapper] = {}
        for topic, queues in by_topic.items():
            everything.update(queues)
            response.topic_accumulation[topic].CopyFrom(self._summed(queues))
        response.accumulation.CopyFrom(self._summed(everything))
        return response

    def _summed(
        self, queues: Mapping[MessageQueue, OffsetWrapper]
    ) -> operator.DescribeGroupAccumulationResponse.GroupAccumulation:
        rows = queues.values()
        lag = sum(one.broker_offset - one.consumer_offset for one in rows)
        inflight = sum(max(0, one.pull_offset - one.consumer_offset) for one in rows)
        found = operator.DescribeGroupAccumulationResponse.GroupAccumulation(
            inflight_messages=inflight,
            ready_messages=max(0, lag - inflight),
            accumulation=lag,
            last_consume_timestamp=max((one.last_timestamp for one in rows), default=0),
        )
        behind = [
            one.last_timestamp
            for one in rows
            if one.broker_offset > one.consumer_offset and one.last_timestamp
        ]
        found.deliver_delay_time.FromMilliseconds(max(0, self._now() - min(behind)) if behind else 0)
        return found

    async def reset(self, request: operator.ResetGroupOffsetRequest) -> operator.ResetGroupOffsetResponse:
        """Sets the offsets of a group to a time."""
        await reset_offset(
            self._admin,
            named(request.group, "group"),
            named(request.topic, "topic"),
            duration_ms(request.reset_timestamp),
        )
        return operator.ResetGroupOffsetResponse(status=OK)

    async def time_span(self, request: operator.QueryTimeSpanRequest) -> operator.QueryTimeSpanResponse:
        """Store times of the first, the last and the last consumed message of each queue."""
        group = named(request.group, "group")
        response = operator.QueryTimeSpanResponse(status=OK)
        for resource in request.topics:
            topic = named(resource, "topic")
            for one in await self._admin.brokers_of(topic):
                reply = await self._admin.call(one.address, QueryConsumeTimeSpan(topic, group))
                for span in reply.body.consume_time_span_set:
                    found = response.queue_time_span_list.add(
                        min_timestamp=span.min_time_stamp,
                        max_timestamp=span.max_time_stamp,
                        consume_timestamp=span.consume_time_stamp,
                        delay_time_ms=span.delay_time,
                    )
                    queue = span.message_queue or MessageQueue(topic, one.name, -1)
                    found.message_queue.topic.name, found.message_queue.id = queue.topic, queue.queue_id
                    found.message_queue.broker.name = queue.broker_name or one.name
        return response

    async def stats(
        self, request: operator.GetProxyRuntimeStatsRequest
    ) -> operator.GetProxyRuntimeStatsResponse:
        """Figures of one proxy."""
        kinds = Counter("producer" if client.group is None else "consumer" for client in self._clients)
        sent, received = self._rates.per_second
        return operator.GetProxyRuntimeStatsResponse(
            status=OK,
            proxy_name=socket.gethostname(),
            version=orbitmq.__version__,
            in_tps=sent,
            out_tps=received,
            connections=self._connections(),
            producers=kinds["producer"],
            consumers=kinds["consumer"],
        )
