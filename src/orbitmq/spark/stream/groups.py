"""A pipeline's progress as a consumer group's offsets, so that every admin tool shows its lag."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.client import Heartbeat, UnregisterClient
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.spark.errors import SparkSourceError
from orbitmq.spark.read.cluster import Cluster, call_all
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import Queue
from orbitmq.spark.read.positions import QueueOffsets

log = logging.getLogger(__name__)


class GroupOffsets:
    """Writes offsets under `groupId` to the brokers of the queues."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.namesrv, options.connecting)
        self._introduced: set[tuple[str, str]] = set()

    def write(self, offsets: QueueOffsets) -> bool:
        """Commits the offset of every queue. True if all of them could be.

        An offset that could not be written is logged and no error: a stream's own place is its checkpoint,
        and the next commit holds everything that this one did.
        """
        by_address: dict[str, list[tuple[Queue, int]]] = {}
        done = True
        try:
            for topic, queues in offsets.items():
                here = {queue.key: queue for queue in self._cluster.queues_of(topic) or ()}
                for key, offset in queues.items():
                    if key in here:
                        by_address.setdefault(here[key].address, []).append((here[key], offset))
                    else:
                        done = False
        except (SparkSourceError, BrokerRefused) as error:
            log.warning("the offsets of group %s could not be written: %s", self._options.group, error)
            return False
        for address, members in by_address.items():
            try:
                self._write_at(address, members)
            except (NetError, BrokerRefused) as error:
                done = False
                log.warning("the offsets of group %s could not be written: %s", self._options.group, error)
        return done

    def _write_at(self, address: str, members: list[tuple[Queue, int]]) -> None:
        group = self._options.group
        requests: list[Any] = [
            UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset, logical=False)
            for queue, offset in members
        ]
        for request in requests:
            if (address, request.topic) not in self._introduced:
                self._introduce(address, request.topic)
                # Of several first offsets of a topic that come at once, Apache's broker may forget some.
                self._cluster.ask(address, partial(call_all, requests=[request]))
                self._introduced.add((address, request.topic))
        self._cluster.ask(address, lambda peer: call_all(peer, requests))

    def _introduce(self, address: str, topic: str) -> None:
        """Makes the broker know the group and its retry topic, by which tools find a group's brokers.

        A consumer that says hello and leaves: a broker creates both then, where it is allowed to.
        """
        group = self._options.group
        client = f"spark@{group}"
        subscription = SubscriptionData(
            topic=topic,
            sub_string=self._options.subscription,
            expression_type=self._options.expression_type,
        )
        consumer = ConsumerData(
            group_name=group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=[subscription],
        )
        hello = Heartbeat(HeartbeatData(client_id=client, consumer_data_set=[consumer]))
        self._cluster.ask(address, lambda peer: peer.call(hello))
        self._cluster.ask(address, lambda peer: peer.call(UnregisterClient(client, consumer_group=group)))

    def close(self) -> None:
        self._cluster.close()
