"""Topics of RocketMQ as targets: batches, in their order, each to one queue."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence

from orbitmq.client import (
    IllegalMessage,
    IllegalName,
    Message,
    MessageQueue,
    NoNameServer,
    Producer,
    SendFailed,
    TopicNotFound,
)
from orbitmq.client.core.errors import ClientError, NoMasterNow
from orbitmq.client.sending.attempts import BrokerUnknown
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.delay_service.errors import NoForm
from orbitmq.delay_service.options import ClusterAt
from orbitmq.delay_service.rules.delivery import Outgoing, Result, Sent, outgoing_content
from orbitmq.delay_service.rules.forms import as_rocketmq
from orbitmq.delay_service.targets.missing import Missing
from orbitmq.delay_service.targets.target import LEASE_OVER, always
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.names import KEYS, SHARDING_KEY, TAGS

GROUP = "orbitmq_delay"
SEND_MS = 5_000
LARGE_BYTES = 64 << 10
"""Larger bodies go alone, and compressed."""
_ABOUT_THE_MESSAGE = frozenset({ResponseCode.MESSAGE_ILLEGAL})
_ABOUT_THE_TOPIC = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION})
_NOT_TAKEN = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY})
SENT = Sent(Result.SENT)
Part = list[tuple[int, Message]]


class RocketTarget:
    """Sends to all topics of one cluster."""

    def __init__(self, cluster: ClusterAt) -> None:
        self._producer = Producer(
            GROUP,
            cluster.addresses,
            instance_name="delay",
            send_msg_timeout_ms=SEND_MS,
            retry_times_when_send_failed=0,
            delivery_timeout_ms=0,
            poll_name_server_interval_ms=10_000,
            join_sends=False,
            **cluster.access.options,
        )
        self._missing = Missing(time.monotonic)
        self.may_send: Callable[[], bool] = always
        self._turns = itertools.count()

    async def start(self) -> None:
        """Makes it ready; the cluster need not be there."""
        await self._producer.start()

    async def close(self) -> None:
        await self._producer.close()

    async def deliver(self, topic: str, batch: Sequence[Outgoing]) -> list[Sent]:
        results: list[Sent] = [SENT] * len(batch)
        try:
            queues = await self._producer.queues(topic)
        except (TopicNotFound, IllegalName, NoNameServer, NetError, BrokerRefused) as error:
            fate = self._fate(topic, error)
            if fate.result is Result.FAILED:  # nothing was sent yet
                fate = Sent(Result.NOT_SENT, fate.reason)
            return [fate] * len(batch)
        parts: dict[MessageQueue, Part] = {}
        chosen = queues[next(self._turns) % len(queues)]
        for place, one in enumerate(batch):
            try:
                message = new_message(topic, one)
            except (NoForm, IllegalMessage, IllegalName) as error:
                results[place] = Sent(Result.REFUSED, str(error))
                continue
            key = message.sharding_key
            queue = queue_of_key(queues, key) if key else chosen
            parts.setdefault(queue, []).append((place, message))
        await asyncio.gather(*(self._send(topic, queue, part, results) for queue, part in parts.items()))
        if all(one.result is Result.SENT for one in results):
            self._missing.found(topic)
        return results

    async def _send(self, topic: str, queue: MessageQueue, part: Part, results: list[Sent]) -> None:
        """Sends messages to one queue, in their order. After a failure the rest is not tried."""
        failed: Sent | None = None
        for run in _runs(part):
            if failed is None and not self.may_send():
                failed = LEASE_OVER
            if failed is None:
                failed = await self._send_run(topic, queue, run, results)
            else:
                for place, _ in run:
                    results[place] = Sent(Result.NOT_SENT, failed.reason)

    async def _send_run(self, topic: str, queue: MessageQueue, run: Part, results: list[Sent]) -> Sent | None:
        try:
            if len(run) == 1:
                await self._producer.send(run[0][1], queue=queue)
            else:
                await self._producer.send_batch([message for _, message in run], queue=queue)
        except (OrbitError, ClientError) as error:
            fate = self._fate(topic, error)
            if fate.result is Result.REFUSED and len(run) > 1:
                # One of them is at fault: halves find out which.
                middle = len(run) // 2
                failed = await self._send_run(topic, queue, run[:middle], results)
                if failed is None:
                    return await self._send_run(topic, queue, run[middle:], results)
                for place, _ in run[middle:]:
                    results[place] = Sent(Result.NOT_SENT, failed.reason)
                return failed
            for place, _ in run:
                results[place] = fate
            return None if fate.result is Result.REFUSED else fate
        return None

    def _fate(self, topic: str, error: Exception) -> Sent:
        """The fate of messages whose send failed."""
        cause = error.failures[-1][1] if isinstance(error, SendFailed) and error.failures else error
        reason = str(cause)
        if isinstance(cause, IllegalMessage | IllegalName):
            return Sent(Result.REFUSED, reason)
        if isinstance(cause, NoMasterNow | NoNameServer | ConnectFailed | BrokerUnknown):
            self._missing.unreachable()
            return Sent(Result.NOT_SENT, reason)
        if isinstance(cause, TopicNotFound):
            return self._missing.verdict(topic, reason)
        if isinstance(cause, BrokerRefused):
            if cause.code in _ABOUT_THE_MESSAGE:
                return Sent(Result.REFUSED, reason)
            if cause.code in _ABOUT_THE_TOPIC:
                return self._missing.verdict(topic, reason)
            return Sent(Result.NOT_SENT if cause.code in _NOT_TAKEN else Result.FAILED, reason)
        self._missing.unreachable()
        return Sent(Result.FAILED, reason)


def _runs(part: Part) -> list[Part]:
    """Messages that go together: large ones alone."""
    runs: list[Part] = []
    open_run: Part = []
    for one in part:
        if len(one[1].body) > LARGE_BYTES:
            if open_run:
                runs.append(open_run)
                open_run = []
            runs.append([one])
        else:
            open_run.append(one)
    if open_run:
        runs.append(open_run)
    return runs


def new_message(topic: str, one: Outgoing) -> Message:
    """The message that leaves. Raises NoForm, IllegalMessage."""
    body, properties, flag = as_rocketmq(outgoing_content(one))
    own = {name: value for name, value in properties.items() if value}
    tags, key, ordering = (own.pop(name, None) for name in (TAGS, KEYS, SHARDING_KEY))
    return Message(
        topic,
        body or b"-",
        tags=tags,
        keys=tuple((key or "").split()),
        properties=own,
        sharding_key=ordering,
        flag=flag,
    )
