"""Brokers that leave the routes, asked to or without a word, while producers send."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq import Message, Producer, SendStatus
from orbitmq.admin import Admin
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.requests.route import (
    AddWritePermOfBroker,
    GetRouteinfoByTopic,
    WipeWritePermOfBroker,
)
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(600)


async def until(is_so: Callable[[], bool], work: asyncio.Task[None] | None = None) -> None:
    """Returns once something holds, or the work has failed; the test's own time limit ends it else."""
    while not is_so():
        if work is not None and work.done():
            await work
        await asyncio.sleep(0.02)


async def until_routed(admin: Admin, topic: str, brokers: int) -> None:
    """Returns once each name server knows the topic at so many brokers, which tell them by themselves."""
    for address in admin.namesrv:
        known = 0
        while known < brokers:
            with suppress(TopicNotExist):
                known = len((await admin.call(address, GetRouteinfoByTopic(topic))).body.broker_datas)
            await asyncio.sleep(0.02)


async def test_wiping_write_permission_drains_a_broker_without_a_failed_send(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, masters=2, name_servers=2, timeout_seconds=120) as cluster:
        async with (
            Admin(cluster.namesrv, timeout_ms=20_000) as admin,
            Producer(
                "P", cluster.namesrv, delivery_timeout_ms=0, poll_name_server_interval_ms=100
            ) as producer,
        ):
            await admin.create_topic("drained", queues=2)
            await until_routed(admin, "drained", 2)
            taken: Counter[str] = Counter()
            over = asyncio.Event()

            async def keep_sending() -> None:
                while not over.is_set():
                    # The first failure ends the test: there is one round of tries, and each counts.
                    result = await producer.send(Message("drained", b"x"), timeout_ms=60_000)
                    assert result.status is SendStatus.SEND_OK
                    taken[result.queue.broker_name] += 1

            sending = asyncio.ensure_future(keep_sending())
            await until(lambda: min(taken["broker-a"], taken["broker-b"]) > 20, sending)
            replies = await asyncio.gather(
                *(admin.call(address, WipeWritePermOfBroker("broker-a")) for address in admin.namesrv)
            )
            assert all(reply.wipe_topic_count > 0 for reply in replies)

            async def is_drained() -> bool:
                before = taken["broker-a"]
                others = taken["broker-b"]
                await until(lambda: taken["broker-b"] > others + 100, sending)
                return taken["broker-a"] == before

            while not await is_drained():
                pass
            # Nobody sends there any more: it may go, and none of the sends fails.
            await asyncio.to_thread(cluster.stop_node, "broker-a-0")
            after = taken["broker-b"]
            await until(lambda: taken["broker-b"] > after + 50, sending)
            await asyncio.to_thread(cluster.start_node, "broker-a-0")
            for address in admin.namesrv:
                await admin.call(address, AddWritePermOfBroker("broker-a"))
            back = taken["broker-a"]
            await until(lambda: taken["broker-a"] > back, sending)
            over.set()
            await sending


async def test_a_broker_that_stops_without_a_word_leaves_the_routes_in_the_configured_time(
    tmp_path: Path,
) -> None:
    with LocalCluster(
        tmp_path,
        timeout_seconds=120,
        enableSlaveActingMaster="true",
        brokerHeartbeatInterval="200",
        registerNameServerPeriod="10000",
        # Long, for the last heartbeat may be some seconds old when a busy machine stops the broker.
        brokerNotActiveTimeoutMillis="15000",
    ) as cluster:
        async with Admin(cluster.namesrv, timeout_ms=20_000) as admin:
            await admin.create_topic("silent")
            await until_routed(admin, "silent", 1)
            pid = cluster.pid("broker-a-0")
            os.kill(pid, signal.SIGSTOP)
            try:
                loop = asyncio.get_running_loop()
                began = loop.time()
                assert (await admin.topic_route("silent")).broker_datas, "its connection is open still"
                with suppress(TopicNotExist):
                    while (await admin.topic_route("silent")).broker_datas:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                assert loop.time() - began > 3.0, "not before its time: it may only be slow"
            finally:
                os.kill(pid, signal.SIGCONT)

            async def is_back() -> bool:
                with suppress(TopicNotExist):
                    return bool((await admin.topic_route("silent")).broker_datas)
                return False

            while not await is_back():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
