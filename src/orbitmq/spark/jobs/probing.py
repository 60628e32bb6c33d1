"""Probes of a cluster as a client sees it: routes of name servers, sends and reads of brokers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.topics import create_request
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Malformed
from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset
from orbitmq.protocol.requests.pull import pull_without_commit
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.requests.send import SendMessage

PROBE_TOPIC = "orbitmq_probe"
PROBE_GROUP = "orbitmq_probe"
NAME_SERVER = "name server"

Observation = dict[str, Any]


class NothingRead(Exception):
    """A broker said that it has messages and handed out none."""


class Prober:
    """Tries everything once per `look`, and remembers brokers that name servers have forgotten.

    Name servers forget a broker that is gone, which is when it has to be tried. To `send_to` topics a small
    message is sent and read back; of `read_from` topics the last message is read.
    """

    def __init__(self, admin: Admin, send_to: Sequence[str], read_from: Sequence[str]) -> None:
        self._admin = admin
        self._send_to = tuple(send_to)
        self._read_from = tuple(topic for topic in read_from if topic not in send_to)
        self.brokers: dict[str, str] = {}
        """Masters by name, with their addresses."""
        self._number = 0

    async def look(self) -> list[Observation]:
        """Everything that was tried, and what came of it."""
        self._number += 1
        found = await self._admin.each(self._admin.namesrv, self._name_server)
        tries = [(name, topic) for name in sorted(self.brokers) for topic in self._send_to + self._read_from]
        for observed in await self._admin.each(tries, lambda one: self._broker(*one)):
            found += observed
        return [one for one in found if one]

    async def make_topic(self, topic: str) -> None:
        """Makes a topic of one queue on every master. Raises NoBroker, NetError, BrokerRefused."""
        for one in await self._admin.masters():
            await self._admin.call(
                one.address, create_request(TopicConfig(topic, read_queue_nums=1, write_queue_nums=1))
            )

    async def discover(self) -> list[BrokerAt]:
        """The masters that name servers know. Raises NoBroker, NetError."""
        found = await self._admin.masters()
        self.brokers |= {one.name: one.address for one in found}
        return found

    async def _name_server(self, address: str) -> Observation:
        async def ask() -> None:
            info = (await self._admin.call(address, GetBrokerClusterInfo())).body
            for data in (info.broker_addr_table or {}).values():
                master = (data.broker_addrs or {}).get(0)
                if master is not None and data.broker_name is not None:
                    self.brokers[data.broker_name] = master

        return await _tried(ask, NAME_SERVER, address, "", "route")

    async def _broker(self, name: str, topic: str) -> list[Observation]:
        address = self.brokers[name]
        at_offset = -1
        found = []
        if topic in self._send_to:

            async def send() -> None:
                nonlocal at_offset
                at_offset = await self._send(address, topic)

            found.append(await _tried(send, name, address, topic, "send"))
            if at_offset < 0:
                return found
        found.append(
            await _tried(lambda: self._read(address, topic, at_offset), name, address, topic, "receive")
        )
        return found

    async def _send(self, address: str, topic: str) -> int:
        reply = await self._admin.call(
            address,
            SendMessage(
                producer_group=PROBE_GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=1,
                queue_id=0, sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0,
                properties="TAGS\x01orbitmq_probe\x02", body=b"probe %d" % self._number,
            ),
        )  # fmt: skip
        return reply.queue_offset

    async def _read(self, address: str, topic: str, at_offset: int) -> None:
        """Reads the message at an offset, or without one the last; an empty queue is asked all the same.

        One that was sent just now may be held back until its queue has it: Apache's brokers do that later.
        """
        wanted = was_sent = at_offset >= 0
        if not wanted:
            low = (await self._admin.call(address, GetMinOffset(topic, 0))).offset
            at_offset = (await self._admin.call(address, GetMaxOffset(topic, 0))).offset - 1
            wanted = at_offset >= max(low, 0)
        reply = await self._admin.call(
            address,
            pull_without_commit(
                TOOLS_GROUP, topic, 0, max(at_offset, 0), 1,
                wait_ms=self._admin.timeout_ms // 2 if was_sent else 0,
            ),
        )  # fmt: skip
        if wanted and (reply.code != ResponseCode.SUCCESS or not reply.body):
            raise NothingRead(f"no message at offset {at_offset} of {topic}, queue 0")


async def _tried(
    act: Callable[[], Awaitable[None]], broker: str, address: str, topic: str, operation: str
) -> Observation:
    at = datetime.now(UTC)
    began = time.perf_counter()
    error = None
    try:
        await act()
    except (NetError, BrokerRefused, Malformed, NothingRead) as failure:
        error = " ".join(str(failure).split())
    return {
        "at": at,
        "broker": broker if broker != NAME_SERVER else f"{NAME_SERVER} {address}",
        "address": address,
        "topic": topic,
        "operation": operation,
        "ok": error is None,
        "latencyMs": (time.perf_counter() - began) * 1000,
        "error": error,
    }
